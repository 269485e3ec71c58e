/* SPDX-License-Identifier: Apache-2.0 */
/* In a process that compiles: one order after another. The module of the last one stays, for the next. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "backend-cpu.h"
#include "front/ptx-facts.h"
#include "jit/ptx-order.h"

static struct {
	struct vcuda_cache_key text;
	struct ptx_module *module; /* NULL: there is none */
} last;

static void forget_last(void)
{
	ptx_module_destroy(last.module);
	last.module = NULL;
}

/* ---- the file of a module ---- */

/* The part of the file that has not been read yet. */
struct rest {
	const char *at;
	size_t bytes;
};

/* NULL: there is less. */
static const void *cut(struct rest *rest, size_t bytes)
{
	const char *at = rest->at;

	if (bytes > rest->bytes)
		return NULL;
	rest->at += bytes;
	rest->bytes -= bytes;
	return at;
}

static bool find_texts(struct rest *rest, const uint64_t *lengths, struct ptx_text *texts, size_t count)
{
	for (size_t n = 0; n < count; n++) {
		texts[n] = (struct ptx_text){cut(rest, lengths[n]), lengths[n]};
		if (!texts[n].text)
			return false;
	}
	return true;
}

static enum ptx_status read_file(struct rest rest, const struct vcuda_cache_key *text, struct ptx_error *error)
{
	const struct ptx_order_file *head = cut(&rest, sizeof(*head));
	const uint64_t *lengths =
		head && head->text_count <= rest.bytes ? cut(&rest, head->text_count * sizeof(*lengths)) : NULL;
	const void *facts = lengths ? cut(&rest, head->facts_bytes) : NULL;
	struct ptx_text *texts = facts ? calloc(head->text_count + 1, sizeof(*texts)) : NULL;
	struct ptx_facts *own = NULL;
	enum ptx_status status = PTX_NO_MEMORY;

	if (texts && find_texts(&rest, lengths, texts, head->text_count)) {
		own = head->facts_bytes ? ptx_facts_copy(facts, head->facts_bytes) : NULL;
		if (own || !head->facts_bytes)
			status = ptx_module_again(texts, head->text_count, text, own, &last.module, error);
	}
	free(texts);
	return status;
}

static enum ptx_status read_module(int file, const struct vcuda_cache_key *text, struct ptx_error *error)
{
	enum ptx_status status;
	struct stat s;
	void *data;

	if (last.module && !memcmp(&last.text, text, sizeof(*text)))
		return PTX_OK;
	forget_last();
	if (fstat(file, &s) || s.st_size <= 0)
		return PTX_NO_MEMORY;
	data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (data == MAP_FAILED)
		return PTX_NO_MEMORY;
	status = read_file((struct rest){data, (size_t)s.st_size}, text, error);
	munmap(data, (size_t)s.st_size);
	last.text = *text;
	return status;
}

/* ---- orders ---- */

static enum ptx_status make(int file, const struct ptx_order *order, struct ptx_made *made, struct ptx_error *error)
{
	struct ptx_wanted wanted = {.version = order->version, .choose = order->choose};
	double start = ptx_make_now_ms(), cpu = ptx_make_cpu_ms();
	enum ptx_status status = read_module(file, &order->text, error);
	double wall = ptx_make_now_ms() - start;

	cpu = ptx_make_cpu_ms() - cpu;
	if (status == PTX_OK) {
		wanted.kernel = ptx_module_kernel(last.module, order->kernel);
		memcpy(wanted.blockdim, order->blockdim, sizeof(wanted.blockdim));
		status = wanted.kernel ? ptx_make(&wanted, made, error) : PTX_INVALID;
		made->times.parse += wall;
		made->times.cpu += cpu;
	}
	if (status != PTX_OK)
		forget_last();
	return status;
}

static bool give(enum ptx_status status, const struct ptx_made *made, const struct ptx_error *error, void **result,
		 size_t *result_bytes)
{
	size_t piece_bytes = status == PTX_OK ? ptx_piece_size(made->piece) : 0;
	struct ptx_order_result *r = calloc(1, sizeof(*r) + piece_bytes);

	if (!r)
		return false;
	*r = (struct ptx_order_result){.status = status,
				       .version = made->version,
				       .error = *error,
				       .times = made->times,
				       .piece_bytes = piece_bytes};
	if (piece_bytes)
		memcpy(r + 1, made->piece, piece_bytes);
	*result = r;
	*result_bytes = sizeof(*r) + piece_bytes;
	return true;
}

__attribute__((visibility("default"))) bool vcuda_cpu_compile(int file, const void *data, size_t bytes, void **result,
							      size_t *result_bytes)
{
	struct ptx_error error = {0};
	struct ptx_made made = {0};
	struct ptx_order order;
	enum ptx_status status;
	bool ok;

	if (bytes != sizeof(order))
		return false;
	memcpy(&order, data, sizeof(order));
	status = make(file, &order, &made, &error);
	/* With a text it is something else that the compiler could not do. */
	if (status == PTX_NO_MEMORY && !*error.text)
		return false;
	ok = give(status, &made, &error, result, result_bytes);
	free(made.piece);
	return ok;
}
