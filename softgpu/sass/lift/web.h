/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webs of registers. Machine code has one register for many values. Each value, with all definitions that reach its
 * uses, gets a PTX register of its own, so that the software GPU knows which values are the same in all lanes, or
 * contiguous. A kernel is lifted twice: the first time its accesses of registers are recorded, the second time they
 * have names. Both times the calls must be the same. One kernel, one thread.
 */
#ifndef VCUDA_SASS_WEB_H
#define VCUDA_SASS_WEB_H

#include <stdbool.h>
#include <stdint.h>

/* All registers: general, uniform, predicates, uniform predicates. */
enum { WEB_GENERAL = 0, WEB_UNIFORM = 256, WEB_PREDICATE = 320, WEB_UNIFORM_PREDICATE = 328, WEB_REGISTERS = 336 };

struct webs;

/* NULL: there is no memory. */
struct webs *webs_create(void);
void webs_free(struct webs *webs);

/* An instruction begins; the same instruction of another call of its function has another `instance`. */
void webs_begin(struct webs *webs, unsigned int instance, uint32_t address);
/* The instruction at hand jumps to this one. */
void webs_jump(struct webs *webs, unsigned int instance, uint32_t address);
/* The one behind it does not follow. */
void webs_end(struct webs *webs);

/*
 * An access by the instruction at hand: the number of the register's web, 0 while accesses are recorded. A write that
 * leaves other lanes' values is a partial one. An instruction's reads are those of the values before its writes.
 */
uint32_t webs_read(struct webs *webs, unsigned int reg);
uint32_t webs_write(struct webs *webs, unsigned int reg, bool partial);

/*
 * Pairs of registers, reg and the next one, that have the halves of a 64-bit value. To be told behind the last write of
 * both, and behind the read of both, by the instruction at hand. True: all writes of both webs are of such pairs, and
 * the pair is read, so that a 64-bit register can have its value; *number is that of the web of `reg`. False while
 * accesses are recorded.
 */
bool webs_write_pair(struct webs *webs, unsigned int reg, uint32_t *number);
bool webs_read_pair(struct webs *webs, unsigned int reg, uint32_t *number);
/* Whether a register is the lower one of such pairs. */
bool webs_has_pairs(const struct webs *webs, unsigned int reg);

/*
 * All is recorded: makes the webs. From then on the same calls give names. False: there is no memory, or there are too
 * many.
 */
bool webs_make(struct webs *webs);
bool webs_no_memory(const struct webs *webs);
/* The second calls were not the first ones. */
bool webs_differ(const struct webs *webs);
/* How many webs a register has. */
uint32_t webs_count(const struct webs *webs, unsigned int reg);

#endif
