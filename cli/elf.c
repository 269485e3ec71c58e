/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a program's file that `vcuda run` needs before it starts the program. */
#include "cli.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_program(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return false;
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return false;
	}
	return access(path, X_OK) == 0;
}

bool cli_program_find(const char *name, char *path, size_t size)
{
	const char *search = getenv("PATH"), *end;
	bool denied = false;

	if (strchr(name, '/')) {
		snprintf(path, size, "%s", name);
		return is_program(path);
	}
	for (search = search ? search : "/usr/bin:/bin"; *name; search = end + 1) {
		end = strchrnul(search, ':');
		snprintf(path, size, "%.*s%s%s", (int)(end - search), search, end > search ? "/" : "", name);
		if (is_program(path))
			return true;
		denied |= errno == EACCES;
		if (!*end)
			break;
	}
	errno = denied ? EACCES : ENOENT;
	return false;
}

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* The dynamic section of a program, which the loader reads. */
struct dynamic {
	bool rpath, runpath;
	uint64_t names, runpath_at; /* the names' address, and where among them DT_RUNPATH's is */
};

static void read_dynamic(int fd, const Elf64_Phdr *segment, struct dynamic *d)
{
	Elf64_Dyn entry;

	for (uint64_t at = 0; at + sizeof(entry) <= segment->p_filesz; at += sizeof(entry)) {
		if (!read_at(fd, &entry, sizeof(entry), segment->p_offset + at) || entry.d_tag == DT_NULL)
			break;
		d->rpath |= entry.d_tag == DT_RPATH;
		d->runpath |= entry.d_tag == DT_RUNPATH;
		if (entry.d_tag == DT_RUNPATH)
			d->runpath_at = entry.d_un.d_val;
		if (entry.d_tag == DT_STRTAB)
			d->names = entry.d_un.d_ptr;
	}
}

static bool is_elf(int fd, Elf64_Ehdr *elf)
{
	return read_at(fd, elf, sizeof(*elf), 0) && !memcmp(elf->e_ident, ELFMAG, SELFMAG) &&
	       elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_phentsize == sizeof(Elf64_Phdr);
}

static bool read_segment(int fd, const Elf64_Ehdr *elf, unsigned int i, Elf64_Phdr *segment)
{
	return read_at(fd, segment, sizeof(*segment), elf->e_phoff + i * sizeof(*segment));
}

/* Gives the dynamic segment, all 0 where there is none, and DT_RUNPATH's string, which is empty where there is none. */
static struct dynamic examine(const char *path, char *runpath, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct dynamic d = {0};
	Elf64_Ehdr elf;
	Elf64_Phdr s;

	memset(runpath, 0, size);
	if (fd < 0)
		return d;
	if (is_elf(fd, &elf)) {
		for (unsigned int i = 0; i < elf.e_phnum; i++)
			if (read_segment(fd, &elf, i, &s) && s.p_type == PT_DYNAMIC)
				read_dynamic(fd, &s, &d);
		for (unsigned int i = 0; i < elf.e_phnum && d.runpath; i++)
			if (read_segment(fd, &elf, i, &s) && s.p_type == PT_LOAD && d.names - s.p_vaddr < s.p_filesz &&
			    pread(fd, runpath, size - 1, (off_t)(s.p_offset + d.names - s.p_vaddr + d.runpath_at)) < 0)
				*runpath = 0;
	}
	close(fd);
	return d;
}

bool cli_has_rpath(const char *path)
{
	char runpath[1];
	struct dynamic d = examine(path, runpath, sizeof(runpath));

	return d.rpath && !d.runpath; /* with DT_RUNPATH, the loader ignores DT_RPATH */
}

bool cli_is_musl(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char loader[PATH_MAX] = "";
	Elf64_Ehdr elf;
	Elf64_Phdr s;

	if (fd < 0)
		return false;
	if (is_elf(fd, &elf))
		for (unsigned int i = 0; i < elf.e_phnum; i++)
			if (read_segment(fd, &elf, i, &s) && s.p_type == PT_INTERP && s.p_filesz < sizeof(loader) &&
			    !read_at(fd, loader, s.p_filesz, s.p_offset))
				*loader = 0;
	close(fd);
	return strstr(loader, "/ld-musl-") != NULL;
}

/* "python", "python3", "python3.11", "python3.13t" (free-threaded), "python3.12d" (debug); "pypy" and its versions. */
static bool is_python_name(const char *path)
{
	static const char *const names[] = {"python", "pypy"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *version = name + strlen(names[i]);

		if (!strncmp(name, names[i], strlen(names[i])) && !version[strspn(version, "0123456789.td")])
			return true;
	}
	return false;
}

/*
 * A script's interpreter is Python: "#!/usr/bin/python3", "#!/usr/bin/env python3", or, where pip found the first of
 * these too long, a shell that executes Python in the second line.
 */
static bool is_python_script(const char *text)
{
	char lines[512], *word, *rest = NULL;

	if (strncmp(text, "#!", 2))
		return false;
	snprintf(lines, sizeof(lines), "%s", text + 2);
	for (word = strtok_r(lines, " \t\"\n", &rest); word; word = strtok_r(NULL, " \t\"\n", &rest)) {
		const char *slash = strrchr(word, '/');
		bool leads = !strcmp(slash ? slash + 1 : word, "env") || !strcmp(slash ? slash + 1 : word, "sh") ||
			     !strcmp(word, "'''exec'") || *word == '-' || strchr(word, '=');

		if (!leads)
			return is_python_name(word);
	}
	return false;
}

bool cli_is_python(const char *path)
{
	char target[PATH_MAX], text[512] = "";
	int fd;

	if (is_python_name(path) || (realpath(path, target) && is_python_name(target)))
		return true;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		*text = 0;
	close(fd);
	return is_python_script(text);
}

static bool runpath_has(const char *path, const char *library)
{
	char runpath[2 * PATH_MAX], file[3 * PATH_MAX], *rest = NULL;

	examine(path, runpath, sizeof(runpath));
	for (char *folder = strtok_r(runpath, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest)) {
		bool origin = !strncmp(folder, "$ORIGIN", 7);
		const char *slash = strrchr(path, '/');

		snprintf(file, sizeof(file), "%.*s%s/%s", origin && slash ? (int)(slash - path) : 0, path,
			 origin ? folder + 7 : folder, library);
		if (access(file, F_OK) == 0)
			return true;
	}
	return false;
}

bool cli_wants_math(const char *path)
{
	static const char *const theirs[] = {"libcublas.so.11",   "libcublas.so.12",   "libcublas.so.13",
					     "libcublasLt.so.11", "libcublasLt.so.12", "libcublasLt.so.13",
					     "libcurand.so.10"};
	const char *wanted = getenv("VCUDA_MATH");

	for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
		if (runpath_has(path, theirs[i]))
			return false;
	return !wanted || strcmp(wanted, "0");
}
