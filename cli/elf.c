/* SPDX-License-Identifier: Apache-2.0 */
/* What `vcuda run` must know of a program before it starts it. */
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

bool cli_find_program(const char *name, char *path, size_t size)
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

static bool dynamic_has_rpath(int fd, const Elf64_Phdr *segment)
{
	bool rpath = false;
	Elf64_Dyn entry;

	for (uint64_t at = 0; at + sizeof(entry) <= segment->p_filesz; at += sizeof(entry)) {
		if (!read_at(fd, &entry, sizeof(entry), segment->p_offset + at) || entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_RUNPATH)
			return false; /* with one, the loader ignores DT_RPATH */
		rpath |= entry.d_tag == DT_RPATH;
	}
	return rpath;
}

bool cli_has_rpath(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool rpath = false;
	Elf64_Ehdr elf;
	Elf64_Phdr segment;

	if (fd < 0)
		return false;
	if (read_at(fd, &elf, sizeof(elf), 0) && !memcmp(elf.e_ident, ELFMAG, SELFMAG) &&
	    elf.e_ident[EI_CLASS] == ELFCLASS64 && elf.e_phentsize == sizeof(segment))
		for (unsigned int i = 0; i < elf.e_phnum; i++)
			if (read_at(fd, &segment, sizeof(segment), elf.e_phoff + i * sizeof(segment)) &&
			    segment.p_type == PT_DYNAMIC)
				rpath = dynamic_has_rpath(fd, &segment);
	close(fd);
	return rpath;
}
