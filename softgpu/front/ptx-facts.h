/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a module that take reading all bodies of its functions, and without which no kernel can be used. A text
 * that has facts is good. Facts are kept on the disk beside the machine code, by the text and the compiler's build.
 * Their contents are not trusted: facts of another text make reading fail, now or when a body is needed.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_FACTS_H
#define VCUDA_BACKEND_CPU_PTX_FACTS_H

#include "front/ptx-ir.h"

struct ptx_facts;

/* The facts of a module all of whose bodies were read, for free(). NULL: there is no memory. */
struct ptx_facts *ptx_facts_make(const struct ptx_module *module);

/* The facts that the cache has of the text with this key, for free(); NULL: none. */
struct ptx_facts *ptx_facts_load(const struct vcuda_cache_key *text);
void ptx_facts_store(const struct ptx_facts *facts, const struct vcuda_cache_key *text);
/* As bytes, the facts' own; and a copy of such bytes, for free(). NULL: there is no memory, or the bytes are no facts.
 */
const void *ptx_facts_bytes(const struct ptx_facts *facts, size_t *size);
struct ptx_facts *ptx_facts_copy(const void *bytes, size_t size);
/* Drops facts that turned out to be of another text. */
void ptx_facts_forget(const struct vcuda_cache_key *text);

/* The end of a body that has `left` bytes of its text before it. False: not found. */
bool ptx_facts_extent(const struct ptx_facts *facts, uint32_t number, uint64_t left, struct ptx_extent *extent);

/* Gives the functions and kernels of a module, whose heads were read, what the facts say. False: they do not fit. */
bool ptx_facts_apply(const struct ptx_facts *facts, struct ptx_module *module);

#endif
