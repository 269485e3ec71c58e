/* SPDX-License-Identifier: Apache-2.0 */
/* The .version and .target that a PTX text begins with, and what they allow. The functions are thread-safe. */
#ifndef VCUDA_BACKEND_CPU_PTX_DIALECT_H
#define VCUDA_BACKEND_CPU_PTX_DIALECT_H

#include <stdbool.h>
#include <stddef.h>

/* 90 for version 9.0 and for sm_90; 0: not said. */
struct ptx_dialect {
	unsigned version, target;
	char suffix;                        /* a or f, of sm_90a or sm_100f; 0: none */
	unsigned version_line, target_line; /* lines of the directives */
};

/* The version that a number after .version is. 0: none. */
unsigned ptx_dialect_version(double number);
/* Reads the name of a target. False: it is not sm_ and a number; then nothing is changed. */
bool ptx_dialect_target(struct ptx_dialect *dialect, const char *text, size_t length);
/* False: the version has no such target. True where no target is said. */
bool ptx_dialect_has_target(const struct ptx_dialect *dialect);

/* The beginning of a text; all zero if the text does not begin with a version. Reads no more than the first tokens. */
void ptx_dialect_read(struct ptx_dialect *dialect, const char *text, size_t length);

#endif
