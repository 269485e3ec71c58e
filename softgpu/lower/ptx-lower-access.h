/* SPDX-License-Identifier: Apache-2.0 */
/* One memory instruction as it is compiled. */
#ifndef VCUDA_BACKEND_CPU_PTX_LOWER_ACCESS_H
#define VCUDA_BACKEND_CPU_PTX_LOWER_ACCESS_H

#include "lower/ptx-lower.h"

/* `base[index]` */
struct index {
	int32_t base, index; /* registers: 64 bits, the same for all lanes, and 32 bits */
	unsigned shift;
	bool sign;
	LLVMValueRef pointer, lanes;
};

struct access {
	const struct ptx_instr *i;
	const struct ptx_operand *o;
	unsigned space, size, count, lanes;
	unsigned needed; /* bytes that must be there, of size * count, which an access is aligned to */
	uint32_t site;
	bool write;
	bool indexed; /* with one lane: the address is as in `x` */
	struct index x;
	int64_t offsets[PTX_LANES]; /* per lane, from the base */
};

void access_describe(struct lower *l, const struct ptx_instr *i, struct access *a);
LLVMValueRef access_address(struct lower *l, const struct access *a);
int64_t access_immediate(const struct access *a);
LLVMValueRef host_address(struct lower *l, const struct access *a, LLVMValueRef base);
LLVMValueRef load_at(struct lower *l, const struct access *a, LLVMTypeRef type, LLVMValueRef pointer,
			    int64_t offset);
void store_at(struct lower *l, const struct access *a, LLVMValueRef value, LLVMValueRef pointer, int64_t offset);
/* Says that a load gives the same value whenever it is done. */
void never_changes(struct lower *l, LLVMValueRef load);
LLVMValueRef lane_index(struct lower *l, unsigned n);
LLVMValueRef shuffle(struct lower *l, LLVMValueRef a, LLVMValueRef b, const int *mask, unsigned count);

/* ---- ptx-lower-runs.c ---- */
/* Lanes side by side, of a size that processors load and store under a mask. */
bool access_is_in_order(const struct access *a);
void access_load(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts);
void access_store(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts);
/* A load for the lanes that are there. */
void access_load_some(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts);
/* A store of the lanes that are there, as vectors. False, and nothing done: not possible. */
bool access_can_blend(const struct access *a);
bool access_blend(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts);

/* ---- ptx-lower-access.c ---- */
LLVMValueRef in_cached_range(struct lower *l, const struct access *a, LLVMValueRef low, uint64_t span);
LLVMValueRef in_space(struct lower *l, LLVMValueRef low, uint64_t span, LLVMValueRef size);
void access_check(struct lower *l, struct access *a, LLVMValueRef base);
/*
 * In an aside: leaves for the masked version unless what access_load_some() and access_blend() touch is good, gaps and
 * what belongs to lanes that are not there too.
 */
void access_check_apart(struct lower *l, const struct access *a, LLVMValueRef base);
bool access_is_direct(struct lower *l, struct access *a);
/*
 * A vector of 8 or 16 bytes that others look at meanwhile: each lane's goes to or from memory at once. Nothing in PTX says
 * so, but an H100 does it with two numbers, and CUB's scans take it for granted. An access of 32 lanes is direct only where all have one address.
 */
bool access_is_whole(const struct access *a);
LLVMValueRef lanes_in_range(struct lower *l, const struct access *a, LLVMValueRef addresses);
LLVMValueRef all_addresses(struct lower *l, const struct access *a);
void spill_addresses(struct lower *l, const struct access *a);
bool access_redefines(struct lower *l, const struct ptx_instr *i, int32_t reg);
/* `lanes`, a vector, with the first present lane's element in the place of those of absent lanes. */
LLVMValueRef access_readable(struct lower *l, LLVMValueRef lanes);

/* ---- ptx-lower-index.c ---- */
bool access_is_indexed(struct lower *l, const struct access *a, struct index *x);
/* Whether all lanes that are there may access what their index says. */
LLVMValueRef access_index(struct lower *l, const struct access *a, struct index *x);
LLVMValueRef access_index_pointer(struct lower *l, const struct index *x, unsigned lane);

/* ---- ptx-lower-provenance.c ---- */
/*
 * With one lane: whether `span` bytes from `from` on, which is `low` bytes beyond the address, are aligned and in the
 * range of the parameter that it comes from. NULL: it comes from none.
 */
LLVMValueRef provenance_fits(struct lower *l, const struct access *a, int64_t low, uint64_t span);
/* With 32 lanes: whether the site's range is known when a launch begins, as it comes from a parameter. */
bool provenance_note(struct lower *l, const struct access *a);
/* And whether all of its addresses are aligned if the parameter is, which the site's range then counts in. */
bool provenance_aligns(struct lower *l, const struct access *a);
/* Where the access is in the host's memory. With one lane, `base[index]` does not go by way of the register. */
LLVMValueRef access_pointer(struct lower *l, const struct access *a, LLVMValueRef base);
/* The same address without the constant, for where it is seldom needed: what it is made of is enough to keep. */
LLVMValueRef access_index_address(struct lower *l, const struct access *a);

/* ---- ptx-lower-prefetch.c ---- */
/* After a checked access: has the processor fetch what others like it will need. */
void prefetch_access(struct lower *l, const struct access *a, LLVMValueRef pointer);
enum { SECOND_CACHE = 2, ALL_CACHES };
void prefetch(struct lower *l, LLVMValueRef pointer, int64_t from, uint64_t bytes, bool write, int caches);

/* ---- ptx-lower-stride.c ---- */
/* Before the check of an access whose lanes' addresses have a shape. */
void stride_note(struct lower *l, const struct access *a, LLVMValueRef address);

/* ---- ptx-lower-access.c ---- */
void slow_call(struct lower *l, const struct access *a, const char *name);

#endif
