/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of test programs. The first check that fails prints its file, its line and its text on stderr, and ends the
 * program. Threads and forked children may check, too.
 */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* A program defines these before the inclusion: how it ends, and a text that says what it does at the moment. */
#ifndef CHECK_END
#define CHECK_END() exit(1)
#endif
#ifndef CHECK_SUBJECT
#define CHECK_SUBJECT __func__
#endif

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, CHECK_SUBJECT, #condition);     \
			CHECK_END();                                                                                   \
		}                                                                                                      \
	} while (0)

/* For calls of any interface: their results are integers or enumerations. */
#define GIVES(call, expected)                                                                                          \
	do {                                                                                                           \
		int got_ = (int)(call), expected_ = (int)(expected);                                                   \
		if (got_ != expected_) {                                                                               \
			fprintf(stderr, "%s:%d: %s: %s gave %d, not %d\n", __FILE__, __LINE__, CHECK_SUBJECT, #call,   \
				got_, expected_);                                                                      \
			CHECK_END();                                                                                   \
		}                                                                                                      \
	} while (0)

/* 0 is success in all interfaces. */
#define OK(call) GIVES(call, 0)

#endif
