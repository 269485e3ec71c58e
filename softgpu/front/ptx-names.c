/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "front/ptx-names.h"
#include "front/ptx-parse.h"

bool ptx_names_make(struct ptx_arena *arena, struct ptx_names *names, struct ptx_symbol *const *symbols, uint32_t count)
{
	uint32_t lists = 16;

	while (lists < count && lists < 1u << 24)
		lists *= 2;
	*names = (struct ptx_names){.count = count, .mask = lists - 1};
	names->symbols = ptx_alloc(arena, (count + 1ul) * sizeof(*names->symbols));
	names->first = ptx_alloc(arena, lists * sizeof(*names->first));
	names->next = ptx_alloc(arena, (count + 1ul) * sizeof(*names->next));
	if (!names->symbols || !names->first || !names->next)
		return false;
	for (uint32_t n = 0; n < count; n++) {
		uint32_t *first = &names->first[symbols[n]->hash & names->mask];

		names->symbols[n] = symbols[n];
		names->next[n] = *first;
		*first = n + 1;
	}
	return true;
}

struct ptx_symbol *ptx_names_find(const struct ptx_names *names, uint32_t visible, const char *name, size_t length)
{
	uint32_t hash = ptx_parse_hash(name, length);

	for (uint32_t n = names->first[hash & names->mask]; n; n = names->next[n - 1]) {
		struct ptx_symbol *s = names->symbols[n - 1];

		if (n <= visible && s->hash == hash && strlen(s->name) == length && !memcmp(s->name, name, length))
			return s;
	}
	return NULL;
}
