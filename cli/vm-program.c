/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's program: a shell script with the directory, the environment and the arguments, as a cpio archive
 * behind the initramfs. The kernel unpacks archives that follow one another.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "vm.h"

extern char **environ;

/*
 * Variables that name things of the host that the guest lacks, or that change what the loader and shells do. "*": any
 * ending.
 */
static const char *const dropped[] = {
	"VCUDA_*",       "LD_AUDIT", "LD_LIBRARY_PATH", "BASH_ENV",        "BASH_FUNC_*", "ENV",
	"SSH_*",         "DBUS_*",   "DISPLAY",         "WAYLAND_DISPLAY", "XAUTHORITY",  "XDG_RUNTIME_DIR",
	"NOTIFY_SOCKET", "LISTEN_*", "INVOCATION_ID",   "JOURNAL_STREAM",  "SHLVL",       "_",
	"PWD",           "OLDPWD",
};

/* Variables of messages have the same values in the guest as here. */
static const char *const passed_on[] = {"VCUDA_PROGRESS", "VCUDA_TRACE", "VCUDA_STATS"};

static bool is_dropped(const char *entry)
{
	size_t length = strcspn(entry, "="), i;

	for (i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		if (length == strlen(passed_on[i]) && !strncmp(entry, passed_on[i], length))
			return false;
	for (i = 0; i < sizeof(dropped) / sizeof(*dropped); i++) {
		size_t part = strcspn(dropped[i], "*");

		if (!strncmp(entry, dropped[i], part) && (dropped[i][part] == '*' || length == part))
			return true;
	}
	return !length;
}

static void put_quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", out);
		else
			fputc(*text, out);
	}
	fputc('\'', out);
}

/* The image has a system of its own: of this machine's environment only the terminal and the language hold there. */
static void put_image_environment(FILE *out)
{
	static const char *const kept[] = {"TERM", "LANG", "LC_ALL", "VCUDA_PROGRESS", "VCUDA_TRACE", "VCUDA_STATS"};
	char entry[PATH_MAX];

	fputs(" HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", out);
	/* ldconfig has not run where the image has not been booted since `vcuda vm init`. */
	fputs(" LD_LIBRARY_PATH=/usr/local/" VCUDA_LIBDIR "/vcuda:/usr/local/" VCUDA_LIBDIR "/vcuda/math", out);
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
		if (getenv(kept[i])) {
			snprintf(entry, sizeof(entry), "%s=%s", kept[i], getenv(kept[i]));
			fputc(' ', out);
			put_quoted(out, entry);
		}
}

static void put_environment(FILE *out, const char *program)
{
	char file[PATH_MAX];
	const char *libraries = getenv("VCUDA_GUEST_LIB"), *others = getenv("LD_LIBRARY_PATH");
	char **entry;

	for (entry = environ; *entry; entry++) {
		if (is_dropped(*entry))
			continue;
		fputc(' ', out);
		put_quoted(out, *entry);
	}
	if (!libraries && !others)
		return;
	fputs(" LD_LIBRARY_PATH=", out);
	put_quoted(out, libraries ? libraries : "");
	if (libraries && others)
		fputc(':', out);
	put_quoted(out, others ? others : "");
	if (!libraries || !cli_program_find(program, file, sizeof(file)) || !cli_wants_math(file))
		return;
	fputc(':', out);
	put_quoted(out, libraries);
	fputs("/math", out);
}

static char *make_script(const struct vm_options *options, size_t *size)
{
	char **program = options->program, *script = NULL, *directory = options->image ? strdup("/") : getcwd(NULL, 0);
	FILE *out = open_memstream(&script, size);

	if (!out) {
		free(directory);
		return NULL;
	}
	fputs("#!/bin/sh\ncd ", out);
	put_quoted(out, directory ? directory : "/");
	fputs(" || exit 126\nexec /usr/bin/env -i", out);
	if (options->image)
		put_image_environment(out);
	else
		put_environment(out, *program);
	for (; *program; program++) {
		fputc(' ', out);
		put_quoted(out, *program);
	}
	fputc('\n', out);
	free(directory);
	if (fclose(out)) {
		free(script);
		return NULL;
	}
	return script;
}

/* One member of a "newc" archive: a header of hexadecimal fields, name and data, each padded to 4 bytes. */
static void put_member(FILE *out, const char *name, unsigned int mode, const char *data, size_t size)
{
	size_t name_size = strlen(name) + 1;

	fprintf(out, "070701%08X%08X%08X%08X%08X%08X%08zX%08X%08X%08X%08X%08zX%08X", 0u, mode, 0u, 0u, 1u, 0u, size, 0u,
		0u, 0u, 0u, name_size, 0u);
	fwrite(name, 1, name_size, out);
	fwrite("\0\0\0", 1, -(110 + name_size) & 3, out);
	fwrite(data, 1, size, out);
	fwrite("\0\0\0", 1, -size & 3, out);
}

static bool append_initramfs(int to, const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	bool done = false;

	if (from >= 0 && !fstat(from, &status)) {
		off_t left = status.st_size;

		while (left > 0) {
			ssize_t sent = sendfile(to, from, NULL, (size_t)left);

			if (sent <= 0)
				break;
			left -= sent;
		}
		done = !left;
	}
	if (from >= 0)
		close(from);
	return done;
}

/* Commands of the guest's init. */
static char *make_mounts(const struct vm_options *options, size_t *size)
{
	char *mounts = NULL;
	FILE *out = open_memstream(&mounts, size);

	for (unsigned int i = 0; out && i < options->writable_count; i++) {
		fprintf(out, "mount_writable vcuda-writable-%u ", i);
		put_quoted(out, options->writable[i]);
		fputc('\n', out);
	}
	if (out && !fclose(out))
		return mounts;
	free(mounts);
	return NULL;
}

/* A memory file with initramfs, program and end tag, or -1. */
int vm_program_archive(const struct vm_parts *parts, const struct vm_options *options, const char *end_tag)
{
	size_t size = 0, mounts_size = 0;
	char *script = make_script(options, &size), *mounts = make_mounts(options, &mounts_size);
	int fd = memfd_create("vcuda-initrd", MFD_CLOEXEC);
	FILE *out = NULL;
	bool done = false;

	if (script && mounts && fd >= 0 && append_initramfs(fd, parts->initramfs)) {
		int copy = dup(fd);

		out = copy >= 0 ? fdopen(copy, "w") : NULL;
	}
	if (out) {
		put_member(out, "program", S_IFREG | 0755, script, size);
		put_member(out, "mounts", S_IFREG | 0600, mounts, mounts_size);
		/* Not on the kernel's command line, which programs may well print. */
		put_member(out, "end-tag", S_IFREG | 0600, end_tag, strlen(end_tag));
		put_member(out, "TRAILER!!!", 0, "", 0);
		done = !fclose(out);
	}
	free(script);
	free(mounts);
	if (done)
		return fd;
	vm_message("the initramfs cannot be made: %s.", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int vm_program_check(const char *name)
{
	char path[PATH_MAX];
	int error;

	/* The VM has a /run of its own. */
	if (!strncmp(name, "/run/", 5) || cli_program_find(name, path, sizeof(path)))
		return 0;
	error = errno;
	vm_message("'%s' cannot be run: %s.", name, strerror(error));
	return error == ENOENT ? 127 : 126;
}
