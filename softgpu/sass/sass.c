/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/sass.h"

#include <errno.h>
#include <stdio.h>

#include "sass/cubin/cubin.h"
#include "sass/cubin/memory.h"
#include "sass/module.h"

/* A file that no linker has seen is complete if it needs nothing from others, as those of libraries. */
static bool is_complete(const struct sass_cubin *c)
{
	return c->linked || !c->undefined_count;
}

static int refuse(const struct sass_cubin *c, char *error, size_t room)
{
	if (!is_complete(c))
		snprintf(error, room, "it is not linked: link it, as nvcc does without -rdc=true");
	else
		snprintf(error, room,
			 "code for sm_%u%s is not supported: compile it for sm_80, or to PTX; for a "
			 "library that chooses by the device, set VCUDA_CPU_COMPUTE=8.0",
			 c->architecture, c->specific ? "a" : "");
	return -ENOTSUP;
}

__attribute__((visibility("default"))) void vcuda_sass_ask_for_memory(bool (*room)(uint64_t bytes))
{
	sass_ask_for_memory(room);
}

__attribute__((visibility("default"))) int vcuda_sass_to_ptx(const void *cubin, size_t bytes, const char *kernel,
							     char **text, size_t *length, char *error, size_t room)
{
	struct sass_cubin *c;
	int result = sass_cubin_open(cubin, bytes, &c, error, room);

	if (result)
		return result;
	if (c->specific || !is_complete(c) || !vcuda_sass_takes(c->architecture))
		result = refuse(c, error, room);
	else
		result = sass_module_text(c, kernel, text, length, error, room);
	sass_cubin_close(c);
	return result;
}
