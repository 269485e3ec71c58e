/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of vcudaCompileRows is rows of words, one for each kernel that the software GPU has compiled or taken from
 * its cache. Kernels count only while the control page's `profile` is set. Times are in ns, and sums of all versions of
 * the kernel: for each size of blocks, for parts of warps, quick and optimised.
 */
#ifndef VCUDA_COMPILE_ROWS_H
#define VCUDA_COMPILE_ROWS_H

#define VCUDA_COMPILE_NAME_WORDS 16

enum vcuda_compile_word {
	VCUDA_COMPILE_COMPILED,  /* versions */
	VCUDA_COMPILE_OPTIMISED, /* compiled versions that are no quick code */
	VCUDA_COMPILE_LOADED,    /* versions, from the cache */
	VCUDA_COMPILE_INSTRUCTIONS,
	VCUDA_COMPILE_BYTES,      /* of machine code, as object files */
	VCUDA_COMPILE_WALL,       /* until a version can run: waiting, another process's start and answer, too */
	VCUDA_COMPILE_BACKGROUND, /* of the wall time, while quick code ran */
	VCUDA_COMPILE_CPU,        /* of the compiler's process */
	VCUDA_COMPILE_PARSE,
	VCUDA_COMPILE_ANALYSIS,
	VCUDA_COMPILE_LOWERING,
	VCUDA_COMPILE_PASSES,
	VCUDA_COMPILE_EMISSION,
	VCUDA_COMPILE_LINK,
	VCUDA_COMPILE_NUMBERS,
	VCUDA_COMPILE_NAME = VCUDA_COMPILE_NUMBERS, /* cut off, ended by a NUL */
	VCUDA_COMPILE_WORDS = VCUDA_COMPILE_NAME + VCUDA_COMPILE_NAME_WORDS
};

#endif
