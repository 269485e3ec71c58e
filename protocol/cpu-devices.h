/* SPDX-License-Identifier: Apache-2.0 */
/* VCUDA_CPU_DEVICES: how many software GPUs a worker has. vcudad checks the variable, the software GPU uses it. */
#ifndef VCUDA_CPU_DEVICES_H
#define VCUDA_CPU_DEVICES_H

#include <stddef.h>
#include <stdint.h>

#define VCUDA_CPU_DEVICES_MOST 8
#define VCUDA_CPU_DEVICES_ADVICE "give a number of software GPUs from 1 to 8, e.g. VCUDA_CPU_DEVICES=2"

/* In a word that says what the software GPUs of a process do: one runs a kernel; one runs a kernel, a copy or a memset.
 */
#define VCUDA_CPU_RUNS_KERNEL(device) (1u << (device))
#define VCUDA_CPU_RUNS(device) (1u << (VCUDA_CPU_DEVICES_MOST + (device)))

/* The number that the variable's value names: 1 if it is NULL or empty, 0 if it names none from 1 to 8. */
static inline unsigned int vcuda_cpu_devices(const char *text)
{
	if (!text || !*text)
		return 1;
	return *text >= '1' && *text <= '0' + VCUDA_CPU_DEVICES_MOST && !text[1] ? (unsigned int)(*text - '0') : 0;
}

#endif
