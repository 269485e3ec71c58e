/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's libcublas is made of NVIDIA's libcublasLt, by functions that no program knows. It says where that is, beside
 * itself, but LD_LIBRARY_PATH comes first and may lead here. Then all that this library exports becomes what its
 * namesakes in NVIDIA's are; descriptors and handles are theirs, too, from the first on.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lt.h"

/* Generated: where each exported function goes, and their names, in the same order. */
extern void *lt_aside_table[], *lt_aside_end[];
extern const char lt_aside_names[];

static bool is_same(const char *a, const char *b)
{
	struct stat one, other;

	return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* Whether a library is a libcublas of this version that has another libcublasLt beside it, and where. */
static int is_theirs(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	char name[32], *beside = data;
	Dl_info self;

	(void)size;
	snprintf(name, sizeof(name), "/libcublas.so.%d", cublasLt_version / 10000);
	if (!slash || strncmp(slash, name, strlen(name)) || !dladdr(lt_aside_table, &self))
		return 0;
	snprintf(beside, PATH_MAX, "%.*s/libcublasLt.so.%d", (int)(slash - info->dlpi_name), info->dlpi_name,
		 cublasLt_version / 10000);
	return !access(beside, R_OK) && !is_same(beside, self.dli_fname);
}

__attribute__((constructor)) static void step_aside(void)
{
	const char *name = lt_aside_names;
	char beside[PATH_MAX];
	void *library;

	if (!dl_iterate_phdr(is_theirs, beside))
		return;
	library = dlopen(beside, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "vcuda: NVIDIA's libcublas needs its own libcublasLt: %s\n", dlerror());
		return;
	}
	for (void **to = lt_aside_table; to < lt_aside_end; to++, name += strlen(name) + 1) {
		void *function = dlsym(library, name);

		if (function)
			*to = function;
	}
}
