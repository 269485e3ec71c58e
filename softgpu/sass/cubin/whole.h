/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel with the functions that it calls by relocations: a program of several parts (-rdc=true) has such calls. */
#ifndef VCUDA_SASS_WHOLE_H
#define VCUDA_SASS_WHOLE_H

#include "sass/cubin/cubin.h"

/* NVIDIA's numbers of relocations of calls: of sm_75 to sm_89, and of sm_90. */
enum { SASS_CALL_75 = 58, SASS_CALL_90 = 75 };

struct sass_whole {
	/* As in the cubin, or with the code and the relocations of all callees behind its own. All are in its section.
	 */
	struct sass_function function;
	uint8_t *code; /* NULL: there are no callees */
	struct sass_relocation *relocations;
	struct sass_part *parts;
};

/* 0; -ENOTSUP: the functions cannot be one, and `error`, of `room` bytes, names why; -ENOMEM. */
int sass_whole_make(const struct sass_cubin *cubin, const struct sass_function *kernel, struct sass_whole *whole,
		    char *error, size_t room);
void sass_whole_free(struct sass_whole *whole);

#endif
