/* SPDX-License-Identifier: Apache-2.0 */
/* The name in front of log lines, for tests of parts of a program. */
#include "common/log.h"

const struct vcuda_log_program vcuda_log_program = {.name = "test"};
