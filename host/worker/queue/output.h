/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The printf output of kernels. Back ends, NVIDIA's driver too, write it to the standard output of their process. In a
 * worker that is a file in memory; the guest process reads it and writes it to its own standard output. Thread-safe.
 */
#ifndef VCUDA_OUTPUT_H
#define VCUDA_OUTPUT_H

#include <stddef.h>

struct worker_session;

/* Makes the file; called once, before anything is printed. -1: errno says why. */
int worker_output_open(void);

/* Tells the guest, in the shared area, if there is anything. */
void worker_output_check(struct worker_session *s);

/* Takes at most `room` bytes, and tells the guest if that was all. */
size_t worker_output_read(struct worker_session *s, void *to, size_t room);

#endif
