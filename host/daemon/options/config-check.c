/* SPDX-License-Identifier: Apache-2.0 */
#include "options/config-check.h"

#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options/config-file.h"

#define LOCAL_SOCKET "/run/vcuda/socket"

struct checked {
	char *path;
	struct daemon_config config;
	struct daemon_options options;
	char socket[PATH_MAX]; /* of the unit, if the file has none */
	bool refused;          /* by the arbiter, as it has no room for the VM's minimum */
};

static struct {
	struct checked **files;
	size_t count;
	unsigned int mistakes;
} all;

static unsigned int line_of(const struct checked *file, const char *name)
{
	return file->config.lines[daemon_option_find(name) - daemon_option_table];
}

#define warn(file, option, ...) daemon_config_say((file)->path, line_of(file, option), "warning", __VA_ARGS__)
#define error(file, option, ...)                                                                                       \
	(all.mistakes++, daemon_config_say((file)->path, line_of(file, option), "error", __VA_ARGS__))

/* ---- one file ---- */

/* The file's name says which unit reads it: vcudad.service has local.conf, vcudad@NAME.service has NAME.conf. */
static void take_unit(struct checked *file)
{
	char *copy = strdup(file->path), *name = copy ? basename(copy) : "";
	char *ending = strrchr(name, '.');
	bool local;

	if (ending && !strcmp(ending, ".conf"))
		*ending = '\0';
	local = !strcmp(name, "local");
	if (!daemon_is_name(name))
		daemon_config_say(file->path, 0, "warning",
				  "%s is not the name of a VM, which has letters, digits, \"-\", \"_\" or \".\"", name);
	snprintf(file->socket, sizeof(file->socket), local ? LOCAL_SOCKET : "/run/vcuda/%s.sock", name);
	if (!file->options.vhost_socket && !file->options.socket)
		*(local ? &file->options.socket : &file->options.vhost_socket) = file->socket;
	if (!*file->options.name && daemon_is_name(name))
		strcpy(file->options.name, name);
	free(copy);
}

static void check_folder(const struct checked *file, const char *option, const char *path)
{
	struct stat status;

	if (stat(path, &status))
		warn(file, option, "%s: %s: %m", option, path);
	else if (!S_ISDIR(status.st_mode))
		warn(file, option, "%s: %s is no folder", option, path);
}

static void check_parent(const struct checked *file, const char *option, const char *path)
{
	char *copy;

	if (!path || !line_of(file, option) || !strcmp(path, "none"))
		return;
	copy = strdup(path);
	if (copy)
		check_folder(file, option, dirname(copy));
	free(copy);
}

static void check_devices(const struct checked *file)
{
	char path[64];

	if (strcmp(file->options.backend, "cuda"))
		return;
	if (!daemon_options_has_driver(&file->options))
		warn(file, "backend", "backend: there is no /dev/nvidiactl: NVIDIA's driver is not loaded");
	snprintf(path, sizeof(path), "/dev/nvidia%d", file->options.warm_device);
	if (line_of(file, "warm-device") && file->options.warm_device >= 0 && access(path, F_OK))
		warn(file, "warm-device", "warm-device: %s: %m", path);
}

static void check_machine(const struct checked *file)
{
	const struct daemon_options *options = &file->options;

	check_devices(file);
	check_parent(file, "vhost-socket", options->vhost_socket);
	check_parent(file, "socket", options->socket);
	check_parent(file, "control", options->control);
	check_parent(file, "arbiter", options->arbiter);
	if (line_of(file, "swap-directory"))
		check_folder(file, "swap-directory", options->swap_directory);
	if (line_of(file, "worker") && access(options->worker, X_OK))
		warn(file, "worker", "worker: %s: %m", options->worker);
	if (!daemon_options_may_run(options))
		warn(file, "cpus", "cpus: this process may not run on all of %s", options->cpus_list);
}

static void check_file(struct checked *file)
{
	char reason[300], name[64];

	daemon_options_default(&file->options);
	daemon_config_read(&file->config, file->path, &file->options, &all.mistakes);
	if (!file->config.text)
		return;
	take_unit(file);
	if (!daemon_options_agree(&file->options, reason, sizeof(reason))) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(reason, ":"), reason);
		error(file, name, "%s", reason);
	}
	check_machine(file);
}

/* ---- all files ---- */

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, "none") && !strcmp(a, b);
}

static void compare_sockets(const struct checked *file, const struct checked *other)
{
	const struct daemon_options *a = &file->options, *b = &other->options;
	const struct {
		const char *option, *path;
	} ours[] = {{"vhost-socket", a->vhost_socket}, {"socket", a->socket}, {"control", a->control}};
	const char *const theirs[] = {b->vhost_socket, b->socket, b->control};

	for (size_t n = 0; n < 3; n++)
		for (size_t m = 0; m < 3; m++)
			if (same(ours[n].path, theirs[m]))
				error(file, ours[n].option, "%s: %s is a socket of %s too", ours[n].option,
				      ours[n].path, other->path);
}

static void compare(const struct checked *file, const struct checked *other)
{
	compare_sockets(file, other);
	if (same(file->options.name, other->options.name))
		warn(file, "name", "name: %s has the name %s too", other->path, other->options.name);
	if (same(file->options.cache, other->options.cache) && strcmp(file->options.cache, "shared"))
		warn(file, "cache", "cache: %s has the folder %s too", other->path, other->options.cache);
}

/* VMs with one arbiter share a device, whose size is the least that one of them names (host/arbiter). */
static void check_minimums(size_t number)
{
	struct checked *file = all.files[number];
	const char *arbiter = file->options.arbiter;
	uint64_t sum = 0, capacity = file->options.overcommit;

	if (!file->options.overcommit)
		return;
	for (size_t n = 0; n <= number; n++) {
		const struct daemon_options *other = &all.files[n]->options;

		if (!other->overcommit || all.files[n]->refused ||
		    (arbiter ? !same(arbiter, other->arbiter) : other->arbiter != NULL))
			continue;
		capacity = other->overcommit < capacity ? other->overcommit : capacity;
		if (__builtin_add_overflow(sum, other->min_device_memory, &sum))
			sum = UINT64_MAX;
	}
	if (sum <= capacity)
		return;
	file->refused = true;
	error(file, file->options.min_device_memory ? "min-device-memory" : "overcommit",
	      "min-device-memory: that of the VMs up to here is %llu MiB, of %llu MiB that they have together "
	      "(overcommit)",
	      (unsigned long long)(sum >> 20), (unsigned long long)(capacity >> 20));
}

/* False: there is no memory. */
static bool add(const char *path)
{
	struct checked **files = realloc(all.files, (all.count + 1) * sizeof(*files));

	if (!files)
		return false;
	all.files = files;
	files[all.count] = calloc(1, sizeof(**files));
	if (!files[all.count] || !(files[all.count]->path = strdup(path)))
		return false;
	all.count++;
	return true;
}

static int is_config(const struct dirent *entry)
{
	const char *ending = strrchr(entry->d_name, '.');

	return *entry->d_name != '.' && ending && !strcmp(ending, ".conf");
}

static bool add_folder(const char *folder)
{
	struct dirent **entries;
	char path[PATH_MAX];
	bool good = true;
	int count = scandir(folder, &entries, is_config, alphasort);

	if (count < 0) {
		all.mistakes++;
		daemon_config_say(folder, 0, "error", "%m");
		return true;
	}
	for (int n = 0; n < count; n++) {
		snprintf(path, sizeof(path), "%s/%s", folder, entries[n]->d_name);
		good = add(path) && good;
		free(entries[n]);
	}
	free(entries);
	return good;
}

static bool add_path(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISDIR(status.st_mode) ? add_folder(path) : add(path);
}

static void free_all(void)
{
	for (size_t n = 0; n < all.count; n++) {
		free(all.files[n]->config.text);
		free(all.files[n]->path);
		free(all.files[n]);
	}
	free(all.files);
	all.files = NULL;
}

unsigned int daemon_config_check(char **paths)
{
	/* A host whose units have no files is all right. */
	bool good = *paths || access(VCUDA_CONFIG_DIRECTORY, F_OK) || add_path(VCUDA_CONFIG_DIRECTORY);

	for (; *paths; paths++)
		good = add_path(*paths) && good;
	if (!good) {
		fputs("vcudad: there is no memory for this check\n", stderr);
		all.mistakes++;
	}
	for (size_t n = 0; n < all.count; n++) {
		check_file(all.files[n]);
		for (size_t before = 0; before < n; before++)
			compare(all.files[n], all.files[before]);
		check_minimums(n);
	}
	printf("%zu file%s, %u mistake%s\n", all.count, all.count == 1 ? "" : "s", all.mistakes,
	       all.mistakes == 1 ? "" : "s");
	free_all();
	return all.mistakes;
}
