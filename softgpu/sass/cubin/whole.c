/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/whole.h"
#include "sass/cubin/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (64u << 20)
#define NONE UINT32_MAX

/* The functions that are found, in the order in which their code is placed. */
struct search {
	const struct sass_cubin *cubin;
	uint32_t *place; /* of each function of the cubin; NONE: it is not called */
	const struct sass_function **list;
	uint32_t count, bytes, relocations;
};

static bool is_call(const struct sass_relocation *r)
{
	return r->is_function && (r->type == SASS_CALL_75 || r->type == SASS_CALL_90);
}

static void add(struct search *s, const struct sass_function *f)
{
	uint32_t *place = &s->place[f - s->cubin->functions];

	if (*place != NONE || f->bytes > MAX_BYTES - s->bytes)
		return;
	*place = s->bytes;
	s->list[s->count++] = f;
	s->bytes += f->bytes;
	s->relocations += f->relocation_count;
}

/* A callee without a place is refused where it is called. */
static void find(struct search *s, const struct sass_function *kernel)
{
	add(s, kernel);
	for (uint32_t n = 0; n < s->count; n++) {
		for (uint32_t k = 0; k < s->list[n]->relocation_count; k++) {
			const struct sass_relocation *r = &s->list[n]->relocations[k];
			const struct sass_function *callee =
				is_call(r) ? sass_function_in(s->cubin, r->symbol_section) : NULL;

			if (callee && !callee->kernel)
				add(s, callee);
		}
	}
}

/* Addresses of code become offsets in the whole. */
static struct sass_relocation move(const struct search *s, const struct sass_function *kernel,
				   const struct sass_relocation *r, uint32_t place)
{
	const struct sass_function *to = r->is_function ? sass_function_in(s->cubin, r->symbol_section) : NULL;
	struct sass_relocation moved = *r;

	moved.offset += place;
	if (!to || s->place[to - s->cubin->functions] == NONE)
		return moved;
	/* a pointer to the function; a return address is never that of a begin */
	if (!is_call(r) && r->symbol_value + (uint64_t)r->addend == 0)
		return moved;
	moved.symbol_value += s->place[to - s->cubin->functions];
	moved.symbol_section = kernel->section;
	return moved;
}

static bool join(const struct search *s, const struct sass_function *kernel, struct sass_whole *w)
{
	struct sass_function *f = &w->function;

	w->code = sass_allocate(s->bytes, 1);
	w->relocations = sass_allocate(s->relocations + 1u, sizeof(*w->relocations));
	w->parts = sass_allocate(s->count, sizeof(*w->parts));
	if (!w->code || !w->relocations || !w->parts)
		return false;
	f->code = w->code;
	f->bytes = s->bytes;
	f->relocations = w->relocations;
	f->relocation_count = 0;
	f->parts = w->parts;
	f->part_count = s->count;
	for (uint32_t n = 0; n < s->count; n++) {
		const struct sass_function *part = s->list[n];
		uint32_t place = s->place[part - s->cubin->functions];

		w->parts[n] = (struct sass_part){place, part->name};
		memcpy(w->code + place, part->code, part->bytes);
		if (part->registers > f->registers)
			f->registers = part->registers;
		for (uint32_t k = 0; k < part->relocation_count; k++)
			w->relocations[f->relocation_count++] = move(s, kernel, &part->relocations[k], place);
	}
	return true;
}

/* A callee has constants of its own in the kernel's bank. */
static int check_constants(const struct search *s, char *error, size_t room)
{
	for (uint32_t n = 1; n < s->count; n++) {
		if (!s->list[n]->constant2)
			continue;
		snprintf(error, room, "constants of the function %.100s", s->list[n]->name);
		return -ENOTSUP;
	}
	return 0;
}

static int make(struct search *s, const struct sass_function *kernel, struct sass_whole *w, char *error, size_t room)
{
	if (!s->place || !s->list)
		return -ENOMEM;
	memset(s->place, 0xff, s->cubin->function_count * sizeof(*s->place));
	find(s, kernel);
	if (!s->count) {
		snprintf(error, room, "so much code");
		return -ENOTSUP;
	}
	if (s->count > 1 && !join(s, kernel, w))
		return -ENOMEM;
	return check_constants(s, error, room);
}

int sass_whole_make(const struct sass_cubin *c, const struct sass_function *kernel, struct sass_whole *w, char *error,
		    size_t room)
{
	struct search s = {.cubin = c};
	int result;

	*w = (struct sass_whole){.function = *kernel};
	s.place = sass_allocate(c->function_count, sizeof(*s.place));
	s.list = sass_allocate(c->function_count, sizeof(struct sass_function *));
	result = make(&s, kernel, w, error, room);
	free(s.place);
	free(s.list);
	if (result)
		sass_whole_free(w);
	return result;
}

void sass_whole_free(struct sass_whole *w)
{
	free(w->code);
	free(w->relocations);
	free(w->parts);
	w->code = NULL;
	w->parts = NULL;
	w->relocations = NULL;
}
