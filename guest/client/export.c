/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/own-descriptor.h"
#include "transport.h"

/* Copies the contents of a pipe, and leaves the contents in the pipe. */
static ssize_t peek(int fd, void *contents, size_t bytes)
{
	int ends[2], guarded = vcuda_own_descriptor_guard();
	ssize_t n = -1;

	if (!pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		n = tee(fd, ends[1], bytes, SPLICE_F_NONBLOCK);
		if (n > 0)
			n = read(ends[0], contents, bytes);
		close(ends[0]);
		close(ends[1]);
	}
	vcuda_own_descriptor_unguard(guarded);
	return n;
}

/* In a VM it is a file of the driver's; over the local transport a pipe, which other processes look into as well. */
bool client_export_read(int fd, void *contents, size_t bytes)
{
	ssize_t n = pread(fd, contents, bytes, 0);

	if (n < 0 && errno == ESPIPE)
		n = peek(fd, contents, bytes);
	return n == (ssize_t)bytes;
}
