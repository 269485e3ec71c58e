/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vm-view.h"

/* Settings of the kernel that refuse namespaces, each with the value that does. */
static const struct {
	const char *path, *refusing, *mend;
} settings[] = {
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	{"/proc/sys/user/max_mnt_namespaces", "0", "sysctl user.max_mnt_namespaces=10000"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
	 "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
};

/* The field of /proc/self/status, empty if it is not there. */
static void read_status(const char *field, char value[64])
{
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");
	size_t length = strlen(field);

	value[0] = '\0';
	while (status && !*value && fgets(line, sizeof(line), status))
		if (!strncmp(line, field, length) && line[length] == ':')
			sscanf(line + length + 1, "%63s", value);
	if (status)
		fclose(status);
}

static bool may_administrate(const char *set)
{
	char value[64];

	read_status(set, value);
	return strtoull(value, NULL, 16) >> CAP_SYS_ADMIN & 1;
}

static bool is_filtered(void)
{
	char value[64];

	read_status("Seccomp", value);
	return atoi(value) == SECCOMP_MODE_FILTER;
}

/* Some chroots are mounts and cannot be told from none. */
static bool in_chroot(void)
{
	struct statx root;

	return !statx(AT_FDCWD, "/", 0, STATX_INO, &root) && root.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	       !(root.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static bool has_value(const char *path, const char *refusing)
{
	char value[32] = "";
	FILE *setting = fopen(path, "r");
	bool same = setting && fscanf(setting, "%31s", value) == 1 && !strcmp(value, refusing);

	if (setting)
		fclose(setting);
	return same;
}

static const char *refused_action(enum view_step step)
{
	switch (step) {
	case VIEW_ATTEMPT:
		return "there is no directory or process to try it in";
	case VIEW_MOUNT_NAMESPACE:
		return may_administrate("CapEff") ? "the kernel refuses root a mount namespace (unshare)"
						  : "root has no CAP_SYS_ADMIN and gets no user namespace (unshare)";
	case VIEW_USER_NAMESPACE:
		return in_chroot() ? "the kernel refuses user namespaces in a chroot (unshare)"
				   : "the kernel refuses this user a user namespace (unshare)";
	case VIEW_USER_MAP:
		return "a user namespace is given no user (/proc/self/uid_map)";
	case VIEW_PRIVATE:
		return "mounts in a namespace are refused (mount --make-rprivate /)";
	case VIEW_ROOT:
		return "the root of a namespace cannot be changed (pivot_root)";
	case VIEW_BIND:
		return "mounts in a namespace are refused (mount --rbind /)";
	case VIEW_READ_ONLY:
		return "mounts cannot be made read-only (mount_setattr)";
	case VIEW_WRITABLE:
		return "the folder of --rw cannot be made writable in a namespace (mount --rbind, mount_setattr)";
	case VIEW_HIDE:
		return "mounts in a namespace are refused (mount -t tmpfs)";
	case VIEW_LANDLOCK:
		return "the kernel does not let Landlock keep virtiofsd from writing";
	default:
		return "";
	}
}

void refusal_describe(const struct view_attempt *attempt, char *text, size_t size)
{
	snprintf(text, size, "%s: %s", refused_action(attempt->refused), strerror(attempt->error));
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...)
{
	size_t length = strlen(text);
	va_list values;

	if (length && length + 1 < size) {
		text[length++] = ' ';
		text[length] = '\0';
	}
	va_start(values, format);
	vsnprintf(text + length, size - length, format, values);
	va_end(values);
}

void refusal_mend(const struct view_attempt *attempt, bool offer, char *text, size_t size)
{
	enum view_step step = attempt->refused;
	bool namespaces = step != VIEW_ATTEMPT && step != VIEW_LANDLOCK, found = false;
	char no_new_privileges[64];
	size_t i;

	text[0] = '\0';
	if (step == VIEW_ATTEMPT)
		append(text, size, "TMPDIR names another directory.");
	if (step == VIEW_READ_ONLY && attempt->error == ENOSYS)
		append(text, size, "Linux 5.12 or later is needed.");
	if (step == VIEW_LANDLOCK)
		append(text, size, "Linux 5.13 or later can, unless its boot option `lsm=` leaves Landlock out.");
	/* In a chroot these settings change nothing. */
	for (i = 0; namespaces && !in_chroot() && i < sizeof(settings) / sizeof(*settings); i++)
		if (has_value(settings[i].path, settings[i].refusing)) {
			append(text, size, "As root: `%s`.", settings[i].mend);
			found = true;
		}
	read_status("NoNewPrivs", no_new_privileges);
	if (namespaces && geteuid() && may_administrate("CapBnd") && !is_filtered() && !atoi(no_new_privileges))
		append(text, size, "Root needs no user namespace: `sudo vcuda vm run`.");
	if (namespaces && (!may_administrate("CapBnd") || (!found && is_filtered())))
		append(text, size, "A container needs --privileged.");
	if (offer)
		append(text, size,
		       "`vcuda vm run --share unprivileged` needs no namespace, and protects less "
		       "(doc/threat-model.md).");
	if (!*text)
		append(text, size, "Ask the administrator of this machine for namespaces.");
}
