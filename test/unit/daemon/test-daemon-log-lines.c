/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a worker's text that gets into vcudad's log, and its rate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/daemon/limits/log-lines.h"
#include "test/check.h"

static struct daemon_log_lines lines;
static struct daemon_log_bucket all;
static char got[1 << 20];
static size_t got_bytes;
static bool is_full;

static bool emit(struct daemon_log_lines *from, const char *text, size_t length)
{
	CHECK(from == &lines && length && text[length - 1] == '\n');
	CHECK(got_bytes + length < sizeof(got) && length <= 4096);
	if (is_full)
		return false;
	memcpy(got + got_bytes, text, length);
	got_bytes += length;
	got[got_bytes] = 0;
	return true;
}

static void begin(void)
{
	got_bytes = 0;
	got[0] = 0;
	daemon_log_bucket_init(&all, 1000);
	daemon_log_lines_init(&lines, "vcuda-worker", 42, &all, 1000, emit);
}

static void add(const char *text, uint64_t now)
{
	daemon_log_lines_add(&lines, text, strlen(text), now);
}

static void expect(const char *text, const char *expected)
{
	begin();
	add(text, 1000);
	if (strcmp(got, expected)) {
		fprintf(stderr, "expected: %sgot: %s", expected, got);
		exit(1);
	}
}

static void test_text(void)
{
	expect("vcuda-worker[42]: a\tb\n", "vcuda-worker[42]: a\tb\n");
	expect("a\n\nb\n", "a\nb\n");
	expect("Grüße \xe2\x82\xac \xf0\x9f\x98\x80\n", "Grüße \xe2\x82\xac \xf0\x9f\x98\x80\n");
	expect("\x1b[2J\r\x07\x7f\n", "\\x1b[2J\\x0d\\x07\\x7f\n");
	/* CSI as one character, the line separator, and text that runs from right to left. */
	expect("\xc2\x9b"
	       "2J \xe2\x80\xa8 \xe2\x80\xae \xe2\x81\xa6\n",
	       "\\xc2\\x9b2J \\xe2\\x80\\xa8 \\xe2\\x80\\xae \\xe2\\x81\\xa6\n");
	/* Not UTF-8: alone, too long, a surrogate, beyond the last character, cut off. */
	expect("\x80 \xff \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82\n",
	       "\\x80 \\xff \\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xe2\\x82\n");
}

static void test_other_names(void)
{
	expect("vcudad: all is well\n", "vcuda-worker[42]: vcudad: all is well\n");
	expect("vcuda-worker[43]: all is well\n", "vcuda-worker[42]: vcuda-worker[43]: all is well\n");
	expect("vcuda-keeper[42]: all is well\n", "vcuda-worker[42]: vcuda-keeper[42]: all is well\n");
	expect("vcuda-time 1.0 42 worker: starts\n", "vcuda-time 1.0 42 worker: starts\n");
}

static void test_pieces(void)
{
	const char *text = "first\nGr\xc3\xbc\xc3\x9f"
			   "e\nthird";
	size_t i;

	begin();
	for (i = 0; i < strlen(text); i++)
		daemon_log_lines_add(&lines, text + i, 1, 1000);
	CHECK(!strcmp(got, "first\nGr\xc3\xbc\xc3\x9f"
			   "e\n"));
	daemon_log_lines_finish(&lines, 1000);
	CHECK(!strcmp(got, "first\nGr\xc3\xbc\xc3\x9f"
			   "e\nthird\n"));
	daemon_log_lines_emit_last(&lines);
	CHECK(strlen(got) == got_bytes && !daemon_log_lines_take_dropped(&lines));
}

static void test_long_lines(void)
{
	char text[3 * DAEMON_LOG_LINE_BYTES];
	size_t i;

	memset(text, 'x', sizeof(text));
	begin();
	for (i = 0; i < 10; i++)
		daemon_log_lines_add(&lines, text, sizeof(text), 1000);
	add("\nshort\n", 1000);
	CHECK(got_bytes == DAEMON_LOG_LINE_BYTES + strlen(" [cut]\nshort\n"));
	CHECK(!strcmp(got + DAEMON_LOG_LINE_BYTES, " [cut]\nshort\n"));

	/* The longest that a line gets. */
	memset(text, '\x01', sizeof(text));
	memcpy(text, "vcudad: ", 8);
	begin();
	daemon_log_lines_add(&lines, text, sizeof(text), 1000);
	add("\n", 1000);
	CHECK(got_bytes <= 4096 && got_bytes > 4096 - 16 && !strcmp(got + got_bytes - 11, "\\x01 [cut]\n"));
}

/* More lines than a worker's burst, and than all workers may write in 10 s. */
#define FLOOD 5000
_Static_assert(FLOOD * 21 > DAEMON_LOG_BURST_BYTES && FLOOD * 21 > 10 * DAEMON_LOG_ALL_BYTES_PER_S,
	       "a flood is too short to be held back");

static void flood(unsigned int count, uint64_t now)
{
	char line[64];
	unsigned int i;

	for (i = 0; i < count; i++) {
		snprintf(line, sizeof(line), "this is line %07u\n", i);
		add(line, now);
	}
}

static void test_rate(void)
{
	const size_t line = strlen("this is line 0000000\n");
	size_t before;
	uint64_t dropped;

	begin();
	flood(100000, 1000);
	CHECK(got_bytes <= DAEMON_LOG_BURST_BYTES && got_bytes > DAEMON_LOG_BURST_BYTES - line);
	dropped = daemon_log_lines_take_dropped(&lines);
	CHECK(dropped == 100000 * line - got_bytes && !daemon_log_lines_take_dropped(&lines));
	before = got_bytes;
	/* Ten seconds later there is room for ten seconds, however often it tries. */
	for (uint64_t now = 1001; now <= 11000; now++)
		flood(1, now);
	CHECK(got_bytes - before <= 10 * DAEMON_LOG_BYTES_PER_S + line);
	CHECK(got_bytes - before > 10 * DAEMON_LOG_BYTES_PER_S - DAEMON_LOG_RESUME_BYTES - 2 * line);
	/* A quiet worker gets its burst back, and no more. */
	before = got_bytes;
	flood(100000, UINT64_C(1) << 50);
	CHECK(got_bytes - before <= DAEMON_LOG_BURST_BYTES && got_bytes - before > DAEMON_LOG_BURST_BYTES - line);
}

static void test_last_words(void)
{
	const char *last = "the reason\nof the crash\n";
	size_t before;

	begin();
	flood(100000, 1000);
	daemon_log_lines_take_dropped(&lines);
	flood(1000, 1000);
	add("the reason\nof the crash", 1000);
	before = got_bytes;
	daemon_log_lines_finish(&lines, 1000);
	CHECK(got_bytes == before);
	daemon_log_lines_emit_last(&lines);
	CHECK(got_bytes - before <= DAEMON_LOG_LAST_BYTES && got_bytes - before > DAEMON_LOG_LAST_BYTES - 64);
	CHECK(!strncmp(got + before, "this is line ", 13));
	CHECK(!strcmp(got + got_bytes - strlen(last), last));
	CHECK(daemon_log_lines_take_dropped(&lines) == 1000 * 21 + strlen(last) - (got_bytes - before));

	/* Lines that passed are not repeated. */
	begin();
	flood(100000, 1000);
	add("late\n", 6000);
	CHECK(!strcmp(got + got_bytes - 5, "late\n"));
	before = got_bytes;
	daemon_log_lines_finish(&lines, 6000);
	daemon_log_lines_emit_last(&lines);
	CHECK(got_bytes == before);
}

static void begin_next(uint64_t now)
{
	daemon_log_lines_init(&lines, "vcuda-worker", 42, &all, now, emit);
}

/* Workers that write without end share one budget, and leave a part of it to those that write little. */
static void test_many_workers(void)
{
	const size_t flooded = DAEMON_LOG_ALL_BURST_BYTES - DAEMON_LOG_RESERVE_BYTES + DAEMON_LOG_BURST_BYTES / 2;
	size_t before;

	begin();
	for (int worker = 0; worker < 100; worker++) {
		begin_next(1000);
		flood(FLOOD, 1000);
	}
	CHECK(got_bytes <= DAEMON_LOG_ALL_BURST_BYTES && got_bytes > DAEMON_LOG_ALL_BURST_BYTES - 21);
	begin();
	for (int worker = 0; worker < 4; worker++) {
		begin_next(1000);
		flood(FLOOD, 1000);
	}
	CHECK(got_bytes <= flooded);
	begin_next(1000);
	add("a few words\n", 1000);
	CHECK(!strcmp(got + got_bytes - 12, "a few words\n"));

	/* So do the last words of many workers. */
	begin();
	for (int worker = 0; worker < 1000; worker++) {
		begin_next(1000);
		flood(FLOOD, 1000);
		daemon_log_lines_finish(&lines, 1000);
		daemon_log_lines_emit_last(&lines);
	}
	CHECK(got_bytes <= DAEMON_LOG_ALL_BURST_BYTES);
	before = got_bytes;
	begin_next(11000);
	flood(FLOOD, 11000);
	CHECK(got_bytes - before <= 10 * DAEMON_LOG_ALL_BYTES_PER_S);
}

/* A log whose reader does not read. */
static void test_full(void)
{
	begin();
	is_full = true;
	add("lost\n", 1000);
	is_full = false;
	CHECK(!got_bytes && daemon_log_lines_take_dropped(&lines) == 5);
	add("there\n", 1000);
	CHECK(!strcmp(got, "there\n"));
}

/* No text gets a control character into the log, or a line that claims another origin. */
static void test_random(void)
{
	static const char *const parts[] = {"vcudad: ", "\n",           "\x1b[",    "\xc2",
					    "\x9b",     "\xe2\x80\xae", "\xf0\x9f", "\x98\x80"};
	unsigned int round, i;
	size_t length;
	char text[64];

	srand(1);
	for (round = 0; round < 20000; round++) {
		begin();
		for (i = 0; i < 20; i++) {
			length = (size_t)sprintf(text, "%s%c", parts[rand() % 8], rand() % 255 + 1);
			daemon_log_lines_add(&lines, text, length, 1000);
		}
		daemon_log_lines_finish(&lines, 1000);
		for (length = 0; length < got_bytes; length++)
			CHECK((unsigned char)got[length] >= 0x20 || got[length] == '\n' || got[length] == '\t');
		CHECK(!memchr(got, 0x7f, got_bytes));
		CHECK(!strstr(got, "\xc2\x9b") && !strstr(got, "\xe2\x80\xae") && !strstr(got, "\nvcudad"));
		CHECK(strncmp(got, "vcudad", 6) != 0);
	}
}

int main(void)
{
	test_text();
	test_other_names();
	test_pieces();
	test_long_lines();
	test_rate();
	test_last_words();
	test_many_workers();
	test_full();
	test_random();
	return 0;
}
