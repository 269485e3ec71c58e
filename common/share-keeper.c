/* SPDX-License-Identifier: Apache-2.0 */
#include "share-keeper.h"

#include <errno.h>

#include "fds.h"

int vcuda_keeper_send(int socket, const struct vcuda_keeper_message *m, int fd, int flags)
{
	const struct iovec part = {(void *)(uintptr_t)m, sizeof(*m)};
	ssize_t bytes = vcuda_fds_send(socket, &part, 1, &fd, fd >= 0, flags);

	return bytes < 0 ? (int)bytes : 0;
}

int vcuda_keeper_receive(int socket, struct vcuda_keeper_message *m, int *fd, int flags)
{
	const struct iovec part = {m, sizeof(*m)};
	struct vcuda_fds fds;
	ssize_t bytes = vcuda_fds_receive(socket, &part, 1, &fds, flags);

	*fd = -1;
	if (bytes == sizeof(*m)) {
		*fd = vcuda_fds_take(&fds);
		return 1;
	}
	vcuda_fds_close(&fds, 0);
	return bytes == -EMSGSIZE || bytes > 0 ? -EPROTO : (int)bytes;
}
