/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/progress/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/deadline.h"

#define LOOK_NS 100000000ull

/* The line appears after so much of waiting, with interruptions of the same length at most. */
#define PATIENCE_NS 1000000000ull

/* "\r", and the control sequence that erases the rest of the line. */
#define ERASE "\r\033[K"

static struct {
	pthread_mutex_t lock;     /* never waited for: another thread does the same */
	_Atomic uint64_t seen_ns; /* last time at which a thread waited for a compilation */
	uint64_t waited_ns;
	uint64_t drawn_ns;
	uint32_t number;   /* of the last compilation that was seen, */
	uint64_t since_ns; /* and when it was first seen */
	char line[400];    /* on the terminal, with ERASE in front */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic bool is_shown;

static bool is_zero(const char *variable)
{
	const char *value = getenv(variable);

	return value && !strcmp(value, "0");
}

static bool is_wanted;

static void choose(void)
{
	const char *kind = getenv("TERM");

	is_wanted = kind && *kind && strcmp(kind, "dumb") != 0 && !is_zero("VCUDA_PROGRESS") && !is_zero("VCUDA_LOG");
}

/* Another process group than the terminal's would be stopped if it wrote to the terminal. */
static bool may_draw(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pid_t group;

	pthread_once(&once, choose);
	if (!is_wanted || !isatty(STDERR_FILENO))
		return false;
	group = tcgetpgrp(STDERR_FILENO);
	return group < 0 || group == getpgrp();
}

static unsigned int columns(void)
{
	struct winsize size;

	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
}

static void put(const char *text)
{
	/* A part that the terminal does not take is missing from the line. */
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

/*
 * The function's own name within a name of C++'s (_ZN5outer5innerI...): without its namespaces, parameters and types.
 * Other names stay as they are. Returns the length.
 */
static size_t own_name(const char **name)
{
	const char *at = *name, *found = NULL;
	size_t length = 0;

	if (at[0] == '_' && at[1] == 'Z')
		at += at[2] == 'N' ? 3 : 2;
	while (*at >= '1' && *at <= '9') {
		char *part;
		size_t bytes = strtoul(at, &part, 10);

		if (bytes > strlen(part))
			break;
		found = part;
		length = bytes;
		at = part + bytes;
	}
	if (found)
		*name = found;
	return found ? length : strlen(*name);
}

/* A line as wide as the terminal could not be erased: the name is cut off. */
static void draw(uint32_t done, const char *name, uint64_t ns)
{
	unsigned int width = columns() - 1, length = (unsigned int)own_name(&name);
	char line[sizeof(state.line)], head[120], tail[40];
	size_t others;

	snprintf(head, sizeof(head), "vcuda: compiling kernels for the software GPU: %u done, now ", done);
	snprintf(tail, sizeof(tail), " (%llu s)", (unsigned long long)ns / 1000000000);
	others = strlen(head) + strlen(tail);
	if (others >= width)
		return;
	snprintf(line, sizeof(line), ERASE "%s%.*s%s", head, (int)(length < width - others ? length : width - others),
		 name, tail);
	if (is_shown && !strcmp(line, state.line))
		return;
	strcpy(state.line, line);
	put(line);
	is_shown = true;
}

static void erase(void)
{
	if (is_shown && may_draw())
		put(ERASE);
	is_shown = false;
}

/* The caller holds the lock. */
static void look(uint32_t number, uint32_t done, const char *name)
{
	uint64_t now = vcuda_now_ns(), passed = now - state.seen_ns;

	if (passed < 2 * LOOK_NS)
		state.waited_ns += passed;
	else if (passed > PATIENCE_NS)
		state.waited_ns = 0;
	state.seen_ns = now;
	if (number != state.number)
		state.since_ns = now;
	state.number = number;
	if (state.waited_ns < PATIENCE_NS || now - state.drawn_ns < LOOK_NS)
		return;
	state.drawn_ns = now;
	draw(done, name, now - state.since_ns);
}

uint32_t client_progress_look(struct vcuda_shm *shm)
{
	char name[VCUDA_COMPILING_NAME_BYTES];
	uint32_t number, done;

	if (!vcuda_compiling_read(shm, &number, &done, name)) {
		/* The next kernel may follow at once. */
		if (is_shown && vcuda_now_ns() - state.seen_ns > 2 * LOOK_NS)
			client_progress_end();
		return is_shown ? LOOK_NS / 1000 : 0;
	}
	if (!may_draw())
		return 0;
	if (!pthread_mutex_trylock(&state.lock)) {
		look(number, done, name);
		pthread_mutex_unlock(&state.lock);
	}
	return LOOK_NS / 1000;
}

void client_progress_end(void)
{
	if (!is_shown || pthread_mutex_trylock(&state.lock))
		return;
	erase();
	pthread_mutex_unlock(&state.lock);
}
