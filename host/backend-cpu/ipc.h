/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of several processes: memory.c tells this file of ends. With the lock held. */
#ifndef VCUDA_CPU_IPC_H
#define VCUDA_CPU_IPC_H

#include <stdint.h>

/* An allocation is given back: if others were offered it, it has from now on pages of its own. */
void cpu_ipc_freed(uint64_t address);

/* Another process's memory, whose range is off the table and which no work uses, is unmapped. */
void cpu_ipc_closed(uint64_t address, uint64_t bytes);

#endif
