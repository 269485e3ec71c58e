/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel.h promises about modules and variables. */
#include <stdlib.h>
#include <string.h>

#include "ptx-shared.h"
#include "ptx-version.h"

/* What a device of 65536 registers gives each of 1024 threads. */
#define MOST_REGISTERS 64

static void describe_kernels(struct ptx_module *m)
{
	for (uint32_t k = 0; k < m->kernel_count; k++) {
		struct ptx_function *fn = m->kernels[k].function;

		m->kernels[k].info.local_bytes = fn->local_bytes;
		/* at most as many as let the largest block start: no launch fails for want of registers here */
		m->kernels[k].info.registers = fn->reg_count < MOST_REGISTERS ? fn->reg_count + 1 : MOST_REGISTERS;
		m->kernels[k].info.uses_dynamic_shared = fn->dynamic_shared || m->dynamic_shared;
		m->kernels[k].info.uses_heap = m->uses_heap;
		m->kernels[k].info.ptx_version = m->version;
		m->kernels[k].info.target_sm = m->target;
	}
}

enum ptx_status ptx_module_link(const struct ptx_text *texts, size_t count, struct ptx_module **module,
				struct ptx_error *error)
{
	struct ptx_module *m = calloc(1, sizeof(*m));
	enum ptx_status status;

	memset(error, 0, sizeof(*error));
	*module = NULL;
	if (!m)
		return PTX_NO_MEMORY;
	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_init(&m->link, NULL);
	pthread_cond_init(&m->changed, NULL);
	m->refs = 1;
	m->arena.limit = 64u << 20;
	for (size_t n = 0; n < count; n++)
		m->arena.limit += 64 * (uint64_t)texts[n].length;
	status = ptx_parse(m, texts, count, error);
	if (status == PTX_OK)
		status = ptx_module_aliases(m, error);
	if (status == PTX_OK)
		status = ptx_module_calls(m, texts, count);
	if (status == PTX_OK) {
		m->addresses = ptx_alloc(&m->arena, (m->variable_count + 1u) * sizeof(*m->addresses));
		status = m->addresses && ptx_shared_place(m) ? PTX_OK : PTX_NO_MEMORY;
	}
	if (status != PTX_OK) {
		ptx_module_destroy(m);
		return status;
	}
	describe_kernels(m);
	ptx_key_texts(texts, count, &m->text);
	*module = m;
	return PTX_OK;
}

enum ptx_status ptx_module_create(const char *text, size_t length, struct ptx_module **module, struct ptx_error *error)
{
	const struct ptx_text one = {text, length};

	return ptx_module_link(&one, 1, module, error);
}

static void destroy(struct ptx_module *m)
{
	for (uint32_t k = 0; k < m->kernel_count; k++)
		for (struct ptx_binary *b = m->kernels[k].binaries, *next; b; b = next) {
			next = b->next;
			ptx_binary_free(b);
		}
	ptx_jit_destroy(m->jit);
	ptx_arena_free(&m->arena);
	pthread_cond_destroy(&m->changed);
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

/* What is still being compiled in the background keeps its part of the module until it is done. */
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
