/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One set of objects makes every libcudart. The libraries differ in a number, cudart_version, and in the functions that
 * their names mean. A function is named after the last library that exports it under the plain name: cudaMemAdvise_12.
 * names.txt maps the names of each library to functions.
 */
#ifndef CUDART_VERSION_H
#define CUDART_VERSION_H

/* The version of the library, such as 12090. Generated. */
extern const int cudart_version;

#endif
