/* SPDX-License-Identifier: Apache-2.0 */
/* Copies what the program wrote, up to the end tag that the guest's init writes behind it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "vm.h"

static void stream_write(struct vm_stream *stream, size_t length)
{
	size_t done = 0;

	while (done < length && stream->to >= 0) {
		ssize_t written = write(stream->to, stream->buffer + done, length - done);

		if (written >= 0)
			done += (size_t)written;
		else if (errno != EINTR && errno != EAGAIN)
			stream->to = -1; /* nobody reads it any more; the program may go on */
	}
	memmove(stream->buffer, stream->buffer + length, stream->held - length);
	stream->held -= length;
}

/* How many bytes at the end of the buffer may be the beginning of the end tag. */
static size_t stream_doubtful(const struct vm_stream *stream)
{
	size_t length = strlen(stream->end_tag) - 1;

	if (length > stream->held)
		length = stream->held;
	while (length && memcmp(stream->buffer + stream->held - length, stream->end_tag, length))
		length--;
	return length;
}

bool vm_stream_pump(struct vm_stream *stream)
{
	ssize_t got = read(stream->from, stream->buffer + stream->held, sizeof(stream->buffer) - stream->held);
	char *end_tag;

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (got <= 0) {
		stream_write(stream, stream->held);
		stream->ended = true;
		return false;
	}
	stream->held += (size_t)got;
	end_tag = memmem(stream->buffer, stream->held, stream->end_tag, strlen(stream->end_tag));
	if (end_tag) {
		stream_write(stream, (size_t)(end_tag - stream->buffer));
		stream->ended = true;
		return false;
	}
	stream_write(stream, stream->held - stream_doubtful(stream));
	return true;
}
