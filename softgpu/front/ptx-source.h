/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a module, kept so that bodies of functions are read, here or elsewhere, when a kernel needs them. */
#ifndef VCUDA_BACKEND_CPU_PTX_SOURCE_H
#define VCUDA_BACKEND_CPU_PTX_SOURCE_H

#include "front/ptx-ir.h"

struct ptx_parser;
struct ptx_source;

/* Copies the texts. At most `limit` bytes for their names. NULL: no memory. */
struct ptx_source *ptx_source_create(const struct ptx_text *texts, size_t count, size_t limit);
void ptx_source_destroy(struct ptx_source *source);

size_t ptx_source_count(const struct ptx_source *source);
struct ptx_text ptx_source_text(const struct ptx_source *source, size_t index);

/* A text's heads were read: what is in scope now is what its bodies see. False: no memory. */
bool ptx_source_note(struct ptx_source *source, struct ptx_parser *p);

/*
 * Reads all bodies that a kernel may run and gives its shared variables their places; nothing to do if that was done.
 * From any thread.
 */
enum ptx_status ptx_source_read(struct ptx_kernel *kernel, struct ptx_error *error);

/* One body, for ptx-shared.c: the module's lock `reading` is held. */
enum ptx_status ptx_source_read_body(struct ptx_function *function, struct ptx_error *error);

#endif
