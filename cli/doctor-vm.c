/* SPDX-License-Identifier: Apache-2.0 */
/* Looks where the scripts keep what they fetched; fetches nothing. */
#include "doctor.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "vm.h"

#define DEVICE "vhost-user-test-device-pci"
#define KERNEL "6.1"

/* QEMU, a kernel, its headers, and room to unpack them. */
#define CACHE_MIB 700

static void cache_directory(char path[PATH_MAX])
{
	const char *given = getenv("VCUDA_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (given && *given)
		snprintf(path, PATH_MAX, "%s", given);
	else if (cache && *cache)
		snprintf(path, PATH_MAX, "%s/vcuda", cache);
	else
		snprintf(path, PATH_MAX, "%s/.cache/vcuda", home ? home : "");
}

static bool has_device(const char *qemu)
{
	char line[256];

	return doctor_output(line, sizeof(line), (char *[]){(char *)(uintptr_t)qemu, "-device", DEVICE ",help", NULL});
}

static bool check_qemu(const struct cli_paths *paths, const char *cache)
{
	char cached[PATH_MAX + 64], found[PATH_MAX], version[256], mend[PATH_MAX + 128];

	snprintf(cached, sizeof(cached), "%s/qemu/qemu-system-x86_64", cache);
	for (int i = 0; i < 2; i++) {
		const char *qemu = i ? found : cached;

		if (i ? cli_program_find("qemu-system-x86_64", found, sizeof(found)) && has_device(qemu)
		      : has_device(qemu)) {
			doctor_output(version, sizeof(version), (char *[]){(char *)(uintptr_t)qemu, "--version", NULL});
			return doctor_say(FOUND, "QEMU with " DEVICE, NULL, "%s, %s", version, qemu);
		}
	}
	snprintf(mend, sizeof(mend), "%s/get-qemu.sh fetches one (40 MB, no root needed).", paths->scripts);
	return doctor_say(MISSING, "QEMU with " DEVICE, mend, "QEMU 10.2 or later is neither installed nor in %s",
			  cache);
}

static bool check_virtiofsd(const struct cli_paths *paths, const char *cache)
{
	char cached[PATH_MAX + 64], mend[PATH_MAX + 128];
	const char *const places[] = {cached, "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd"};

	snprintf(cached, sizeof(cached), "%s/qemu/virtiofsd", cache);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (!access(places[i], X_OK))
			return doctor_say(FOUND, "virtiofsd", NULL, "%s", places[i]);
	snprintf(mend, sizeof(mend), "%s/get-qemu.sh fetches it with QEMU.", paths->scripts);
	return doctor_say(MISSING, "virtiofsd", mend, "it is neither installed nor in %s", cache);
}

static bool check_share(void)
{
	struct vm_share share;

	if (vm_share_try(false, &share))
		return doctor_say(FOUND, "read-only sharing of files", NULL, "virtiofsd gets a view of its own");
	return doctor_say(MISSING, "read-only sharing of files", share.mend, "%s", share.refused);
}

static bool check_kernel(const struct cli_paths *paths, const char *cache)
{
	char path[PATH_MAX + 64], release[128] = "", mend[PATH_MAX + 128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/kernel-" KERNEL "/release", cache);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%127s", release) != 1)
			release[0] = '\0';
		fclose(f);
	}
	if (*release)
		return doctor_say(FOUND, "guest kernel and headers", NULL, "%s", release);
	snprintf(mend, sizeof(mend), "%s/get-kernel.sh " KERNEL " fetches Debian's (80 MB, no root needed).",
		 paths->scripts);
	return doctor_say(MISSING, "guest kernel and headers", mend, "not in %s", cache);
}

static bool check_module(const struct cli_paths *paths, const char *cache)
{
	char path[PATH_MAX + 64], mend[PATH_MAX + 128];
	glob_t found;
	bool there;

	snprintf(path, sizeof(path), "%s/module-" KERNEL ".*/virtio-cuda.ko", cache);
	there = !glob(path, 0, NULL, &found);
	if (there) {
		doctor_say(FOUND, "guest driver", NULL, "%s", found.gl_pathv[found.gl_pathc - 1]);
		globfree(&found);
		return true;
	}
	snprintf(mend, sizeof(mend), "%s/build-module.sh " KERNEL " builds it.", paths->scripts);
	return doctor_say(MISSING, "guest driver", mend, "virtio-cuda.ko is not built yet");
}

static void check_kvm(void)
{
	if (vm_uses_kvm())
		doctor_say(FOUND, "KVM", NULL, "VMs run at full speed");
	else if (access("/dev/kvm", R_OK | W_OK) && errno == EACCES)
		doctor_say(NOTED, "KVM", "Add your user to the group kvm: adduser $USER kvm",
			   "you may not open /dev/kvm, so QEMU emulates the processor (TCG), several times slower");
	else
		doctor_say(NOTED, "KVM",
			   "Switch virtualisation on in the firmware, or, where this is a VM itself, nested "
			   "virtualisation on its host.",
			   "%s, so QEMU emulates the processor (TCG), several times slower",
			   access("/dev/kvm", F_OK) ? "there is no /dev/kvm"
						    : "the processor offers neither VMX nor SVM");
}

/* Counts only while something is still to be fetched. */
static bool check_space(const char *cache, bool complete)
{
	char path[PATH_MAX];
	struct statvfs fs;
	unsigned long long mib;

	snprintf(path, sizeof(path), "%s", cache);
	while (statvfs(path, &fs)) {
		char *slash = strrchr(path, '/');

		if (!slash || slash == path) {
			snprintf(path, sizeof(path), "/");
			if (statvfs(path, &fs))
				return true;
			break;
		}
		*slash = '\0';
	}
	mib = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
	if (complete || mib >= CACHE_MIB)
		return doctor_say(FOUND, "disk space of the cache", NULL, "%llu MiB free in %s", mib, cache);
	return doctor_say(MISSING, "disk space of the cache", "Free some, or name another directory with VCUDA_CACHE.",
			  "%llu MiB free in %s, %d MiB are needed", mib, cache, CACHE_MIB);
}

bool doctor_vm(const struct cli_paths *paths)
{
	char cache[PATH_MAX];
	struct utsname machine;
	bool good = true;

	cache_directory(cache);
	if (uname(&machine) || strcmp(machine.machine, "x86_64"))
		good = doctor_say(MISSING, "processor", "Only x86-64 machines are supported.", "%s", machine.machine);
	good &= check_qemu(paths, cache);
	good &= check_virtiofsd(paths, cache);
	good &= check_kernel(paths, cache);
	good &= check_module(paths, cache);
	good &= check_space(cache, good);
	good &= check_share();
	check_kvm();
	return good;
}
