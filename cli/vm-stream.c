/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the program's output, up to the end tag that the guest's init writes behind it, and the program's input. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
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
			stream->to = -1; /* no process reads it any more; the program may go on */
	}
	memmove(stream->buffer, stream->buffer + length, stream->held - length);
	stream->held -= length;
}

/* The number of bytes at the end of the buffer that may begin the end tag. */
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

short vm_input_events(const struct vm_input *input)
{
	return input->ended || input->held ? 0 : POLLIN;
}

short vm_input_port_events(const struct vm_input *input)
{
	return input->held ? POLLOUT : 0;
}

static void input_read(struct vm_input *input)
{
	ssize_t got = read(input->from, input->buffer, sizeof(input->buffer));

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	input->at = 0;
	input->held = got > 0 ? (size_t)got : 0;
	if (got > 0)
		return;
	input->ended = true;
	/* The other direction stays open: at a hang-up QEMU would drop bytes that it has not read yet. */
	if (!input->to_stays_open)
		shutdown(input->to, SHUT_WR);
}

void vm_input_pump(struct vm_input *input, short input_events)
{
	ssize_t sent;

	if (input_events && !input->held && !input->ended)
		input_read(input);
	if (!input->held)
		return;
	sent = send(input->to, input->buffer + input->at, input->held, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (sent < 0) {
		/* The VM has gone. */
		input->ended = true;
		input->held = 0;
		return;
	}
	input->at += (size_t)sent;
	input->held -= (size_t)sent;
}
