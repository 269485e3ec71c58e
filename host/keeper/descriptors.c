/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loop.h"
#include "table.h"

/* The guest has the reading end of a pipe, and the keeper the other one, which reports the last close of the first. */
struct descriptor {
	struct keeper_source source;
	struct keeper_entry *entry;
	struct vcuda_list in_bucket;
	dev_t device;
	ino_t inode;
};

static struct keeper_table all; /* by inode */

/* The last copy of the guest's end is closed. */
static void hung_up(struct keeper_source *source)
{
	struct descriptor *d = container_of(source, struct descriptor, source);

	close(d->source.fd);
	vcuda_list_remove(&d->in_bucket);
	keeper_release(d->entry);
	free(d);
}

/* The handle is in the pipe, and importers look at it without taking it. A pipe, unlike a socket, carries no rights. */
static int make_pipe(const struct keeper_entry *e, int ends[2])
{
	struct vcuda_share_handle handle;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	keeper_name(e, &handle);
	/* Users may have few pages in pipes. */
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_BUF);
	if (write(ends[1], &handle, sizeof(handle)) == sizeof(handle))
		return 0;
	close(ends[0]);
	close(ends[1]);
	return -ENOMEM;
}

static struct descriptor *new_descriptor(struct keeper_entry *e, int fd)
{
	struct descriptor *d = calloc(1, sizeof(*d));
	struct stat file;

	if (!d || fstat(fd, &file)) {
		free(d);
		return NULL;
	}
	*d = (struct descriptor){
		.source = {.fd = fd, .ready = hung_up}, .entry = e, .device = file.st_dev, .inode = file.st_ino};
	vcuda_list_add(&d->in_bucket, keeper_table_bucket(&all, d->inode));
	return d;
}

static void free_descriptor(struct descriptor *d)
{
	if (d)
		vcuda_list_remove(&d->in_bucket);
	free(d);
}

/* Makes the keeper's end of the pipe hold the entry. */
static int attach(struct keeper_entry *e, int fd)
{
	struct descriptor *d = new_descriptor(e, fd);
	int status = d ? keeper_hold(e) : -ENOMEM;

	if (status)
		goto free;
	if (keeper_watch(&d->source, 0))
		return 0;
	status = -errno;
	keeper_release(e);
free:
	free_descriptor(d);
	return status;
}

int keeper_make_descriptor(struct keeper_entry *e, int *fd)
{
	int ends[2], status = e ? make_pipe(e, ends) : -ENOENT;

	if (status)
		return status;
	status = attach(e, ends[1]);
	if (!status) {
		*fd = ends[0];
		return 0;
	}
	close(ends[0]);
	close(ends[1]);
	return status;
}

static bool is_own(const struct stat *file)
{
	struct vcuda_list *bucket = keeper_table_bucket(&all, file->st_ino);

	vcuda_list_for_each (node, bucket) {
		const struct descriptor *d = container_of(node, struct descriptor, in_bucket);

		if (d->inode == file->st_ino && d->device == file->st_dev)
			return true;
	}
	return false;
}

/* A file of the driver in a guest (guest/driver/export.c): such files have no type. */
static bool is_of_guest_driver(int fd)
{
	static const char name[] = "anon_inode:[vcuda]";
	char path[64], target[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target));
	return length == sizeof(name) - 1 && !memcmp(target, name, sizeof(name) - 1);
}

bool keeper_may_keep(int fd)
{
	struct stat file;

	if (fstat(fd, &file))
		return false;
	if (S_ISFIFO(file.st_mode))
		return !is_own(&file);
	return S_ISREG(file.st_mode) || S_ISCHR(file.st_mode) || is_of_guest_driver(fd);
}
