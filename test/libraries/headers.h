/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that are built with NVIDIA's headers and run with our libraries. */
#ifndef LIBRARIES_HEADERS_H
#define LIBRARIES_HEADERS_H

#include "check.h"

#include <dlfcn.h>

/* The library with this function is in `folder`: the test uses virtio-cuda's own library. */
static inline void loaded_from(const char *folder, const char *function)
{
	void *found = dlsym(RTLD_DEFAULT, function);
	char ours[4096], theirs[4096];
	Dl_info where;

	CHECK(folder && found && dladdr(found, &where));
	CHECK(realpath(folder, ours) && realpath(where.dli_fname, theirs));
	if (strncmp(ours, theirs, strlen(ours)) || theirs[strlen(ours)] != '/') {
		fprintf(stderr, "%s comes from %s, not from %s\n", function, theirs, ours);
		exit(1);
	}
}

#endif
