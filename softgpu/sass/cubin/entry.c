/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/entry.h"

#include <string.h>

/* The alignment of an area of parameters. No parameter needs more. */
#define AREA_ALIGN 16
#define MAX_ALIGN 128

/* An alignment with which the parameter gets its offset, whatever is before it. */
static uint32_t alignment(const struct sass_param *p)
{
	uint32_t both = p->offset ? p->offset | MAX_ALIGN : AREA_ALIGN;

	return both & -both;
}

static void add_bounds(struct sass_text *text, const char *directive, const uint32_t *threads)
{
	if (threads[0] && threads[1] && threads[2])
		sass_text_add(text, "%s %u, %u, %u\n", directive, threads[0], threads[1], threads[2]);
}

void sass_entry_add_head(struct sass_text *text, const struct sass_function *f)
{
	sass_text_put(text, ".visible .entry ");
	sass_text_put(text, f->entry ? f->entry : f->name);
	sass_text_put(text, "(");
	for (uint32_t n = 0; n < f->param_count; n++)
		sass_text_add(text, "%s\n\t.param .align %u .b8 $vcuda_p%u[%u]", n ? "," : "", alignment(&f->params[n]),
			      n, f->params[n].bytes);
	sass_text_put(text, ")\n");
	add_bounds(text, ".maxntid", f->max_threads);
	add_bounds(text, ".reqntid", f->required_threads);
	if (f->registers)
		sass_text_add(text, ".maxnreg %u\n", f->registers);
}

void sass_entry_add_refused(struct sass_text *text, const struct sass_function *f, const char *name)
{
	char clean[200];
	size_t n = 0;

	/* nothing that would end the string in PTX */
	for (; n < sizeof(clean) - 1 && name[n]; n++)
		clean[n] = name[n] == '"' || name[n] == '\\' || (unsigned char)name[n] < ' ' ? '\'' : name[n];
	clean[n] = 0;
	sass_entry_add_head(text, f);
	sass_text_add(text, "{\n.pragma \"vcuda_unsupported %s\";\nret;\n}\n", clean);
}
