/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the test of libnvidia-ml, each a process of its own. */
#ifndef TEST_LOCAL_NVML_PARTS_H
#define TEST_LOCAL_NVML_PARTS_H

#include "functions.h"

/* The table of private functions that nvidia-smi asks for. */
static const unsigned char private_table[16] __attribute__((unused)) = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
									0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

/* arguments.c */
void arguments(void);

/* among-devices.c: with two devices or more, and with one. */
void handles(void);
void topology(void);

/* sessions.c */
void sessions(void);

/* sysfs.c: "here": the device is one of this machine; "elsewhere". */
void sysfs(const char *where);

/* work.c */
void busy(void);
void lists(const char *neighbour);
void quota(const char *bytes);
void hold(const char *bytes);

/* host.c: "allowed" or "refused". Figures of the host. */
void host(const char *allowed);

#endif
