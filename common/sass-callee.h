/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of machine code that kernels call through their addresses: names that the translation to PTX, the compiler
 * and the device agree on. No state.
 *
 * Such a function is an entry without parameters. Kernels and callees call it by the PTX function VCUDA_SASS_CALL, with
 * its address. Local memory, of which all kernels and callees of a cubin have the same number of bytes, has the
 * registers for the callee, and for the caller after the call. A thread of the entry that ends has returned, or has
 * exited, as local memory says to the caller.
 */
#ifndef VCUDA_SASS_CALLEE_H
#define VCUDA_SASS_CALLEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The name of the entry, by the number of the function's section in the cubin. */
#define VCUDA_SASS_CALLEE "$vcuda_callee_%u"
#define VCUDA_SASS_CALL "vcuda_call_address"

/* The number that variables have for an address of code, `offset` bytes into a section. No memory has such an address.
 */
static inline uint64_t vcuda_sass_address(uint32_t section, uint64_t offset)
{
	return 1ull << 63 | (uint64_t)section << 32 | (uint32_t)offset;
}

/* The name of the callee at an address. False: it is no address of a section's begin. */
static inline bool vcuda_sass_callee(uint64_t address, char *name, size_t room)
{
	uint32_t section = (uint32_t)(address >> 32) & INT32_MAX;

	if (address != vcuda_sass_address(section, 0))
		return false;
	return snprintf(name, room, VCUDA_SASS_CALLEE, section) < (int)room;
}

#endif
