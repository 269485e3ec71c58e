/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of cuMemHostRegister. Native answers are of an H200 with driver 580. */
#ifndef TEST_LOCAL_REGISTRATION_H
#define TEST_LOCAL_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-functions.h"
#include "test/local/probe.h"

/* The device, by a copy in either direction and by its own pointer, sees `bytes` registered bytes; they change. */
void probe_use(uint8_t *p, size_t bytes);

void probe_layouts(void);
void probe_codes(void);
void probe_life(void);
void probe_late(void);

#endif
