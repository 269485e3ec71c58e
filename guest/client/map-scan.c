/* SPDX-License-Identifier: Apache-2.0 */
#include "map-scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int client_map_scan_begin(struct client_map_scan *scan)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	scan->at = scan->end = 0;
	scan->err = 0;
	scan->has_entry = false;
	scan->file.fd = -1;
	return fd < 0 ? -errno : vcuda_own_descriptor_take(&scan->file, fd);
}

void client_map_scan_end(struct client_map_scan *scan)
{
	vcuda_own_descriptor_close(&scan->file);
}

/* ---- lines ---- */

/* The number of bytes, 0 at the end, or -1 with errno. */
static ssize_t read_file(const struct client_map_scan *scan, char *to, size_t size)
{
	if (vcuda_own_descriptor_is_there(&scan->file))
		return read(scan->file.fd, to, size);
	errno = EIO;
	return -1;
}

/* Appends to the text. False: there is no more, or no room. */
static bool read_more(struct client_map_scan *scan)
{
	ssize_t bytes;

	memmove(scan->text, scan->text + scan->at, scan->end - scan->at);
	scan->end -= scan->at;
	scan->at = 0;
	if (scan->end == sizeof(scan->text))
		return false;
	do {
		bytes = read_file(scan, scan->text + scan->end, sizeof(scan->text) - scan->end);
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		scan->err = -errno;
	scan->end += bytes > 0 ? (size_t)bytes : 0;
	return bytes > 0;
}

static char *find_end(struct client_map_scan *scan)
{
	return memchr(scan->text + scan->at, '\n', scan->end - scan->at);
}

/* The next line, with a zero byte for its end; of a long one the begin. NULL: there is none. */
static const char *next_line(struct client_map_scan *scan)
{
	const char *line;
	char *end;

	while (!(end = find_end(scan)))
		if (!read_more(scan))
			break;
	if (!end && scan->end < sizeof(scan->text))
		return NULL;
	line = scan->text + scan->at;
	if (!end)
		end = scan->text + sizeof(scan->text) - 1;
	*end = 0;
	scan->at = (size_t)(end + 1 - scan->text);
	return line;
}

/* `from-to rwxs offset major:minor inode name`. The rest of a long line gives no entry. */
static bool parse(const char *line, struct client_map_entry *entry)
{
	unsigned int major, minor;
	char *at;

	entry->from = strtoull(line, &at, 16);
	if (*at++ != '-')
		return false;
	entry->to = strtoull(at, &at, 16);
	if (*at++ != ' ' || strlen(at) < 5)
		return false;
	entry->is_shared = at[0] == 'r' && at[1] == 'w' && at[3] == 's';
	entry->offset = strtoull(at + 5, &at, 16);
	major = (unsigned int)strtoul(at, &at, 16);
	if (*at++ != ':')
		return false;
	minor = (unsigned int)strtoul(at, &at, 16);
	entry->file = (struct client_file_id){makedev(major, minor), strtoull(at, NULL, 10)};
	return true;
}

/* ---- entries ---- */

/* The entry around the address. NULL: there is none. */
static const struct client_map_entry *find(struct client_map_scan *scan, uint64_t address)
{
	const char *line;

	while (!scan->has_entry || scan->entry.to <= address) {
		line = next_line(scan);
		if (!line)
			return NULL;
		scan->has_entry = parse(line, &scan->entry);
	}
	return scan->entry.from <= address ? &scan->entry : NULL;
}

struct client_file_id client_map_scan_file(struct client_map_scan *scan, const void *address)
{
	const struct client_map_entry *entry = find(scan, (uintptr_t)address);

	return entry && entry->is_shared ? entry->file : (struct client_file_id){0};
}

bool client_map_scan_covers(struct client_map_scan *scan, const void *address, size_t bytes,
			    const struct client_file_id *file, uint64_t offset)
{
	uint64_t start = (uintptr_t)address, at = start;
	const struct client_map_entry *entry;

	while (at < start + bytes) {
		entry = find(scan, at);
		if (!entry || !entry->is_shared || entry->file.device != file->device ||
		    entry->file.inode != file->inode || entry->offset + at - entry->from != offset + at - start)
			return false;
		at = entry->to;
	}
	return true;
}

struct client_file_id client_file_id(int fd)
{
	struct stat file;

	return fstat(fd, &file) ? (struct client_file_id){0} : (struct client_file_id){file.st_dev, file.st_ino};
}
