/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/log-lines.h"

#include <stdio.h>
#include <string.h>

#define CUT_MARK " [cut]"

/* A pipe takes as much at once or not at all (PIPE_BUF). */
#define CLEAN_BYTES 4096

/* Room behind the text: one replaced byte, CUT_MARK and a newline. */
#define RESERVE 16

_Static_assert(CLEAN_BYTES <= DAEMON_LOG_RESUME_BYTES && CLEAN_BYTES <= DAEMON_LOG_LAST_BYTES, "each line can pass");

void daemon_log_bucket_init(struct daemon_log_bucket *all, uint64_t now)
{
	*all = (struct daemon_log_bucket){DAEMON_LOG_ALL_BURST_BYTES * UINT64_C(1000), now};
}

void daemon_log_lines_init(struct daemon_log_lines *lines, const char *program, pid_t process,
			   struct daemon_log_bucket *all, uint64_t now,
			   bool (*emit)(struct daemon_log_lines *lines, const char *text, size_t length))
{
	*lines = (struct daemon_log_lines){
		.emit = emit, .own = {DAEMON_LOG_BURST_BYTES * UINT64_C(1000), now}, .all = all};
	snprintf(lines->name, sizeof(lines->name), "%s[%d]: ", program, (int)process);
}

/* The number of bytes of the UTF-8 character at `p`; 0: there is no valid one. */
static size_t decode(const unsigned char *p, size_t left, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t bytes = *p < 0x80 ? 1 : *p < 0xc0 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf8 ? 4 : 0, i;

	if (bytes > left)
		return 0;
	*code = bytes == 1 ? *p : *p & (0x7fu >> bytes);
	for (i = 1; i < bytes; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (p[i] & 0x3f);
	}
	return *code < least[bytes] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : bytes;
}

/* Controls of a terminal, of lines and of the direction of text. */
static bool is_control(uint32_t code)
{
	return (code < 0x20 && code != '\t') || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

/* Appends the line to `out` and returns the length of both. The rest is cut where `out` is full. */
static size_t clean(struct daemon_log_lines *lines, char *out, size_t used)
{
	const unsigned char *p = (const unsigned char *)lines->line, *end = p + lines->length;
	uint32_t code;
	size_t bytes;

	for (; p < end && used < CLEAN_BYTES - RESERVE; p += bytes) {
		bytes = decode(p, (size_t)(end - p), &code);
		if (bytes && !is_control(code)) {
			memcpy(out + used, p, bytes);
			used += bytes;
			continue;
		}
		bytes = 1;
		used += (size_t)sprintf(out + used, "\\x%02x", *p);
	}
	lines->is_cut = lines->is_cut || p < end;
	return used;
}

static bool begins(const struct daemon_log_lines *lines, const char *with)
{
	size_t length = strlen(with);

	return lines->length >= length && !memcmp(lines->line, with, length);
}

/* A line that claims to come from vcudad, or from another process with a log of this kind. */
static bool is_forged(const struct daemon_log_lines *lines)
{
	return begins(lines, "vcudad: ") ||
	       ((begins(lines, "vcuda-worker[") || begins(lines, "vcuda-keeper[")) && !begins(lines, lines->name));
}

static size_t compose(struct daemon_log_lines *lines, char *out)
{
	size_t used = 0;

	if (is_forged(lines))
		used = strlen(strcpy(out, lines->name));
	used = clean(lines, out, used);
	if (lines->is_cut)
		used += strlen(strcpy(out + used, CUT_MARK));
	out[used++] = '\n';
	return used;
}

static void refill(struct daemon_log_bucket *b, uint64_t now, uint64_t bytes_per_s, uint64_t most_bytes)
{
	uint64_t gained = (now - b->refilled) * bytes_per_s, most = most_bytes * UINT64_C(1000);

	b->tokens = gained < most - b->tokens ? b->tokens + gained : most;
	b->refilled = now;
}

static bool has(const struct daemon_log_bucket *b, uint64_t bytes)
{
	return b->tokens >= bytes * UINT64_C(1000);
}

static void take(struct daemon_log_bucket *b, uint64_t bytes)
{
	b->tokens -= bytes * UINT64_C(1000);
}

static bool take_tokens(struct daemon_log_lines *lines, size_t bytes, uint64_t now)
{
	uint64_t needed = lines->is_over ? DAEMON_LOG_RESUME_BYTES : bytes, reserve;

	refill(&lines->own, now, DAEMON_LOG_BYTES_PER_S, DAEMON_LOG_BURST_BYTES);
	refill(lines->all, now, DAEMON_LOG_ALL_BYTES_PER_S, DAEMON_LOG_ALL_BURST_BYTES);
	reserve = has(&lines->own, DAEMON_LOG_BURST_BYTES / 2) ? 0 : DAEMON_LOG_RESERVE_BYTES;
	lines->is_over = !has(&lines->own, needed) || !has(lines->all, needed + reserve);
	if (lines->is_over)
		return false;
	take(&lines->own, bytes);
	take(lines->all, bytes);
	return true;
}

/* The second half of the buffer spares a move for each line. */
static void keep_last(struct daemon_log_lines *lines, const char *text, size_t length)
{
	size_t rest = lines->last_length;

	if (lines->last_length + length > sizeof(lines->last)) {
		rest = DAEMON_LOG_LAST_BYTES;
		memmove(lines->last, lines->last + lines->last_length - rest, rest);
	}
	memcpy(lines->last + rest, text, length);
	lines->last_length = rest + length;
}

static void complete(struct daemon_log_lines *lines, uint64_t now)
{
	char text[CLEAN_BYTES];
	size_t length;

	if (!lines->length)
		return;
	length = compose(lines, text);
	lines->length = 0;
	lines->is_cut = false;
	if (take_tokens(lines, length, now) && lines->emit(lines, text, length)) {
		lines->last_length = 0;
		return;
	}
	lines->dropped += length;
	keep_last(lines, text, length);
}

static void append(struct daemon_log_lines *lines, const char *text, size_t length)
{
	size_t room = sizeof(lines->line) - lines->length;

	lines->is_cut = lines->is_cut || length > room;
	length = length > room ? room : length;
	memcpy(lines->line + lines->length, text, length);
	lines->length += length;
}

void daemon_log_lines_add(struct daemon_log_lines *lines, const char *text, size_t length, uint64_t now)
{
	const char *end = text + length, *newline;

	while (text < end) {
		newline = memchr(text, '\n', (size_t)(end - text));
		append(lines, text, (size_t)((newline ? newline : end) - text));
		if (!newline)
			return;
		complete(lines, now);
		text = newline + 1;
	}
}

uint64_t daemon_log_lines_take_dropped(struct daemon_log_lines *lines)
{
	uint64_t dropped = lines->dropped;

	lines->dropped = 0;
	return dropped;
}

void daemon_log_lines_finish(struct daemon_log_lines *lines, uint64_t now)
{
	const char *from = lines->last, *end;

	complete(lines, now);
	refill(lines->all, now, DAEMON_LOG_ALL_BYTES_PER_S, DAEMON_LOG_ALL_BURST_BYTES);
	end = lines->last + lines->last_length;
	/* From the beginning of a line on: the oldest line in the buffer may lack its beginning. */
	if (lines->last_length > DAEMON_LOG_LAST_BYTES) {
		from = memchr(end - DAEMON_LOG_LAST_BYTES - 1, '\n', DAEMON_LOG_LAST_BYTES + 1);
		from++;
	}
	lines->last_length = has(lines->all, (uint64_t)(end - from)) ? (size_t)(end - from) : 0;
	take(lines->all, lines->last_length);
	memmove(lines->last, from, lines->last_length);
	lines->dropped -= lines->last_length < lines->dropped ? lines->last_length : lines->dropped;
}

void daemon_log_lines_emit_last(struct daemon_log_lines *lines)
{
	if (lines->last_length)
		lines->emit(lines, lines->last, lines->last_length);
	lines->last_length = 0;
}
