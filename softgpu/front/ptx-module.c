/* SPDX-License-Identifier: Apache-2.0 */
/* The modules and variables of kernel.h. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "front/ptx-content.h"
#include "front/ptx-facts.h"
#include "front/ptx-key.h"
#include "front/ptx-statistics.h"
#include "front/ptx-shared.h"
#include "front/ptx-source.h"

/* Bytes of what was read that are worth giving back to the system. */
#define LARGE (8u << 20)

static void (*announce)(void); /* atomic */

void ptx_module_announce_new(void (*to)(void))
{
	__atomic_store_n(&announce, to, __ATOMIC_RELEASE);
}

static void announce_new(void)
{
	void (*to)(void) = __atomic_load_n(&announce, __ATOMIC_ACQUIRE);

	if (to)
		to();
}

static struct ptx_module *create(const struct ptx_text *texts, size_t count, const struct vcuda_cache_key *text)
{
	struct ptx_module *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_init(&m->link, NULL);
	pthread_mutex_init(&m->reading, NULL);
	pthread_cond_init(&m->changed, NULL);
	m->refs = 1;
	m->text = *text;
	m->arena.limit = 64u << 20;
	for (size_t n = 0; n < count; n++)
		m->arena.limit += 64 * (uint64_t)texts[n].length;
	return m;
}

/* Parses and puts in order, all of it or, with facts, the heads. */
static enum ptx_status build(struct ptx_module *m, const struct ptx_text *texts, size_t count, struct ptx_error *error)
{
	enum ptx_status status = ptx_parse(m, texts, count, error);

	if (status == PTX_OK)
		status = ptx_module_aliases(m, error);
	if (status == PTX_OK)
		status = ptx_module_calls(m);
	if (status != PTX_OK)
		return status;
	m->addresses = ptx_alloc(&m->arena, (m->variable_count + 1u) * sizeof(*m->addresses));
	return m->addresses ? PTX_OK : PTX_NO_MEMORY;
}

/* A module all of whose bodies are read, and what is found out by that. */
static enum ptx_status whole(const struct ptx_text *texts, size_t count, const struct vcuda_cache_key *text,
			     struct ptx_module **module, struct ptx_facts **facts, struct ptx_error *error)
{
	struct ptx_module *m = create(texts, count, text);
	enum ptx_status status = m ? build(m, texts, count, error) : PTX_NO_MEMORY;

	ptx_statistics_count(&ptx_statistics.whole);
	for (uint32_t k = 0; status == PTX_OK && k < m->kernel_count; k++) {
		uint64_t bytes;

		status = ptx_shared_place(m, &m->kernels[k], &bytes, error);
		m->kernels[k].info.static_shared = bytes;
		m->kernels[k].info.reserved_shared = ptx_shared_reserved(&m->kernels[k]);
	}
	*facts = status == PTX_OK && ptx_content_find(m, texts) ? ptx_facts_make(m) : NULL;
	if (!*facts) {
		ptx_module_destroy(m);
		return status == PTX_OK ? PTX_NO_MEMORY : status;
	}
	ptx_facts_apply(*facts, m);
	*module = m;
	return PTX_OK;
}

/* A module whose bodies are read on demand; takes the facts over. NULL: they are not of this text; no memory. */
static struct ptx_module *from_facts(const struct ptx_text *texts, size_t count, const struct vcuda_cache_key *text,
				     struct ptx_facts *facts)
{
	struct ptx_module *m = create(texts, count, text);
	struct ptx_error ignored = {0};

	if (!m) {
		free(facts);
		return NULL;
	}
	m->facts = facts;
	m->source = ptx_source_create(texts, count, m->arena.limit);
	if (m->source && build(m, texts, count, &ignored) == PTX_OK && ptx_facts_apply(facts, m))
		return m;
	ptx_module_destroy(m);
	return NULL;
}

/* Keeps the text of a module all of whose bodies were read: another process may compile it. */
static enum ptx_status keep_text(const struct ptx_text *texts, size_t count, struct ptx_module **module)
{
	struct ptx_module *m = *module;

	m->source = ptx_source_create(texts, count, m->arena.limit);
	if (m->source)
		return PTX_OK;
	ptx_module_destroy(m);
	*module = NULL;
	return PTX_NO_MEMORY;
}

/* Reads all of a text. Bodies are dropped again where that is possible: few may ever be needed. */
static enum ptx_status from_text(const struct ptx_text *texts, size_t count, const struct vcuda_cache_key *text,
				 struct ptx_module **module, struct ptx_error *error)
{
	struct ptx_facts *facts;
	enum ptx_status status = whole(texts, count, text, module, &facts, error);
	bool large;

	if (status != PTX_OK)
		return status;
	if ((*module)->indivisible) {
		free(facts);
		return keep_text(texts, count, module);
	}
	/* first, so that both are never there at once */
	large = (*module)->arena.used > LARGE;
	ptx_module_destroy(*module);
	if (large)
		malloc_trim(0);
	*module = from_facts(texts, count, text, facts);
	if (*module) {
		ptx_facts_store((*module)->facts, text);
		return PTX_OK;
	}
	status = whole(texts, count, text, module, &facts, error);
	if (status != PTX_OK)
		return status;
	free(facts);
	return keep_text(texts, count, module);
}

enum ptx_status ptx_module_again(const struct ptx_text *texts, size_t count, const struct vcuda_cache_key *text,
				 struct ptx_facts *facts, struct ptx_module **module, struct ptx_error *error)
{
	enum ptx_status status;

	if (facts) {
		*module = from_facts(texts, count, text, facts);
		return *module ? PTX_OK : PTX_NO_MEMORY;
	}
	status = whole(texts, count, text, module, &facts, error);
	if (status == PTX_OK)
		free(facts);
	return status;
}

enum ptx_status ptx_module_link(const struct ptx_text *texts, size_t count, struct ptx_module **module,
				struct ptx_error *error)
{
	struct ptx_facts *facts;
	struct vcuda_cache_key text;

	memset(error, 0, sizeof(*error));
	*module = NULL;
	ptx_key_texts(texts, count, &text);
	facts = ptx_facts_load(&text);
	if (facts)
		*module = from_facts(texts, count, &text, facts);
	if (*module)
		return PTX_OK;
	announce_new();
	return from_text(texts, count, &text, module, error);
}

enum ptx_status ptx_module_create(const char *text, size_t length, struct ptx_module **module, struct ptx_error *error)
{
	const struct ptx_text one = {text, length};

	return ptx_module_link(&one, 1, module, error);
}

static void destroy(struct ptx_module *m)
{
	if (m->free_code)
		m->free_code(m);
	ptx_arena_free(&m->arena);
	ptx_source_destroy(m->source);
	free(m->facts);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->reading);
	pthread_mutex_destroy(&m->link);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void ptx_module_get(struct ptx_module *m)
{
	__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
}

void ptx_module_put(struct ptx_module *m)
{
	if (!__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		destroy(m);
}

/* A compilation in the background keeps its reference to the module until it is done. */
void ptx_module_destroy(struct ptx_module *m)
{
	if (!m)
		return;
	__atomic_store_n(&m->gone, true, __ATOMIC_RELAXED);
	ptx_module_put(m);
}

size_t ptx_module_variables(const struct ptx_module *m, const struct ptx_variable **variables)
{
	*variables = m->variables;
	return m->variable_count;
}

void ptx_module_place(struct ptx_module *m, size_t index, uint64_t address)
{
	if (index < m->variable_count)
		m->addresses[index] = address;
}

enum ptx_status ptx_module_relocate(struct ptx_module *m, size_t index, void *image, struct ptx_error *error)
{
	memset(error, 0, sizeof(*error));
	if (index >= m->variable_count)
		return PTX_INVALID;
	for (const struct ptx_reloc *r = m->relocs[index]; r; r = r->next) {
		uint64_t value;

		if (r->symbol->kind == PTX_SYM_FUNCTION) {
			value = ptx_function_address(m, r->symbol) + (uint64_t)r->addend;
			memcpy((char *)image + r->offset, &value, r->bytes);
			continue;
		}
		if (r->symbol->is_extern || r->symbol->space == PTX_SHARED || r->symbol->space == PTX_LOCAL) {
			ptx_error_set(error, r->symbol->line, "the variable `%s` is not defined", r->symbol->name);
			return PTX_UNRESOLVED;
		}
		value = m->addresses[r->symbol->index] + (uint64_t)r->addend;
		memcpy((char *)image + r->offset, &value, r->bytes);
	}
	return PTX_OK;
}

size_t ptx_module_kernels(const struct ptx_module *m)
{
	return m->kernel_count;
}

struct ptx_kernel *ptx_module_kernel(struct ptx_module *m, size_t index)
{
	return index < m->kernel_count ? &m->kernels[index] : NULL;
}

struct ptx_kernel *ptx_module_find_kernel(struct ptx_module *m, const char *name)
{
	for (uint32_t k = 0; k < m->kernel_count; k++)
		if (!strcmp(m->kernels[k].info.name, name))
			return &m->kernels[k];
	return NULL;
}

const struct ptx_kernel_info *ptx_kernel_info(const struct ptx_kernel *kernel)
{
	return &kernel->info;
}
