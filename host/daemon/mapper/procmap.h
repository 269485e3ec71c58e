/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a process's address space. */
#ifndef VCUDA_PROCMAP_H
#define VCUDA_PROCMAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Whether the address space that `maps`, /proc/PID/maps, describes has no mapping of a file in [address, address +
 * length). False where that cannot be found out. Takes a system call from Linux 6.11 on; before that as long as the
 * process has mappings.
 */
bool daemon_procmap_has_no_file(FILE *maps, uint64_t address, uint64_t length);

#endif
