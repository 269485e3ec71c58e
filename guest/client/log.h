/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_GUEST_LOG_H
#define VCUDA_GUEST_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

/* One line on stderr with the prefix "vcuda: ", unless VCUDA_LOG=0. errno stays as it is. */
void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, once a process for each place in the code. */
#define vcuda_log_once(...)                                                                                            \
	do {                                                                                                           \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                            \
		if (!atomic_flag_test_and_set(&said))                                                                  \
			vcuda_log(__VA_ARGS__);                                                                        \
	} while (0)

#endif
