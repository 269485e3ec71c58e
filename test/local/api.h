/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of the program `api`, and the module that they share: one file has the cases of one subject. */
#ifndef TEST_LOCAL_API_H
#define TEST_LOCAL_API_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"
#include "test/check.h"

extern CUmodule api_module;

/* Into the current context. */
void api_load(void);

/* print(u32), step(u32 *p, u32 k, u32 n): p[i] = p[i] * k + 1, hold(u32 *p): until *p is not 0. */
CUfunction api_function(const char *name);
void api_step(CUdeviceptr p, unsigned int k, unsigned int n, CUstream stream);

void api_callbacks(void);
void api_output(void);
void api_waits(void);
void api_polls(void);
void api_lives(void);
void api_managed(void);
void api_pools(void);
void api_shared_memory(void);
void api_shared_memory_refused(void);
void api_mapped(void);
void api_graphs(void);
void api_capture(void);
void api_legacy_capture(void);
void api_device_graphs(void);
void api_device_graph_issue(void);
void api_values(void);
void api_logs(void);
void api_stuck(void);
void api_endless(void);
void api_stuck_ends(void);
void api_contexts(void);
void api_faults(void);
void api_questions(void);
void api_batches(void);
void api_copies(void);
void api_small_copies(void);
void api_frames(void);
void api_vectors(void);
void api_capture_modes(void);

/* Whether device 0 is the software GPU, which has limits and answers of its own. */
static inline bool is_software(void)
{
	CUresult cuDeviceGetName(char *name, int bytes, CUdevice device);
	char name[256];

	OK(cuDeviceGetName(name, sizeof(name), 0));
	return strstr(name, "Software") != NULL;
}

#endif
