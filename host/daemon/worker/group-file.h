/* SPDX-License-Identifier: Apache-2.0 */
/* The small files of a control group's folder. */
#ifndef VCUDA_GROUP_FILE_H
#define VCUDA_GROUP_FILE_H

#include <stdint.h>

/* A descriptor of the file, or -1 with errno. `flags` as for open(). */
int daemon_group_open(const char *folder, const char *name, int flags);

/* 0 or -errno. */
int daemon_group_write(const char *folder, const char *name, const char *text);

/* The number behind `key` and a blank, or the first number of the file (key NULL). UINT64_MAX: there is none. */
uint64_t daemon_group_number(const char *folder, const char *name, const char *key);

#endif
