/* SPDX-License-Identifier: Apache-2.0 */
#include "jit/ptx-elsewhere.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend-cpu.h"
#include "front/ptx-facts.h"
#include "front/ptx-source.h"
#include "jit/ptx-order.h"

/* A larger file is made anew for each order. */
#define MOST_KEPT_BYTES (16u << 20)

static const struct vcuda_compiler *compiler;

/* The file of the module that was compiled last: programs use several kernels of a module in a row. */
static struct {
	pthread_mutex_t lock;
	struct vcuda_cache_key text;
	int file; /* -1: there is none */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1};

__attribute__((visibility("default"))) void vcuda_cpu_compile_with(const struct vcuda_compiler *other)
{
	compiler = other;
	ptx_module_announce_new(other ? other->expect : NULL);
}

bool ptx_elsewhere_is_used(void)
{
	return compiler;
}

void ptx_elsewhere_tell(const struct ptx_kernel *kernel, struct vcuda_compiled *compiled)
{
	compiled->kernel = kernel->info.name;
	if (compiler && compiler->tell)
		compiler->tell(compiled);
}

/* ---- the file of a module ---- */

static bool put(int file, const void *data, size_t bytes)
{
	const char *at = data;
	ssize_t n;

	for (; bytes; at += n, bytes -= (size_t)n) {
		do
			n = write(file, at, bytes);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return false;
	}
	return true;
}

static bool put_module(int file, const struct ptx_module *m)
{
	struct ptx_order_file head = {.text_count = ptx_source_count(m->source)};
	size_t facts_bytes = 0;
	const void *facts = m->facts ? ptx_facts_bytes(m->facts, &facts_bytes) : NULL;
	bool ok;

	head.facts_bytes = facts_bytes;
	ok = put(file, &head, sizeof(head));
	for (size_t n = 0; ok && n < head.text_count; n++) {
		uint64_t length = ptx_source_text(m->source, n).length;

		ok = put(file, &length, sizeof(length));
	}
	ok = ok && put(file, facts, facts_bytes);
	for (size_t n = 0; ok && n < head.text_count; n++) {
		struct ptx_text text = ptx_source_text(m->source, n);

		ok = put(file, text.text, text.length);
	}
	return ok;
}

static int make_file(const struct ptx_module *m)
{
	int file = memfd_create("vcuda-module", MFD_CLOEXEC);

	if (file < 0 || put_module(file, m))
		return file;
	close(file);
	return -1;
}

static void forget_kept(void)
{
	if (kept.file >= 0)
		close(kept.file);
	kept.file = -1;
}

static void keep(int file, const struct vcuda_cache_key *text)
{
	off_t bytes = lseek(file, 0, SEEK_CUR);

	forget_kept();
	if (bytes < 0 || bytes > MOST_KEPT_BYTES)
		return;
	kept.file = fcntl(file, F_DUPFD_CLOEXEC, 0);
	kept.text = *text;
}

/* For close(); -1: there is no memory. */
static int module_file(const struct ptx_module *m)
{
	int file;

	pthread_mutex_lock(&kept.lock);
	if (kept.file >= 0 && !memcmp(&kept.text, &m->text, sizeof(m->text))) {
		file = fcntl(kept.file, F_DUPFD_CLOEXEC, 0);
	} else {
		file = make_file(m);
		if (file >= 0)
			keep(file, &m->text);
	}
	pthread_mutex_unlock(&kept.lock);
	return file;
}

/* ---- a result ---- */

/* Takes over the result, of which the piece is left. */
static enum ptx_status read_result(void *result, size_t bytes, const struct ptx_wanted *w, struct ptx_made *made,
				   struct ptx_error *error)
{
	struct ptx_order_result *r = result;
	enum ptx_status status = bytes >= sizeof(*r) ? (enum ptx_status)r->status : PTX_INVALID;

	if (bytes < sizeof(*r) || r->status > PTX_UNRESOLVED || r->piece_bytes != bytes - sizeof(*r) ||
	    (status == PTX_OK &&
	     !ptx_piece_is_good((const struct ptx_piece *)(r + 1), r->piece_bytes, w->version.masked))) {
		ptx_error_set(error, 0, "the compiler's result makes no sense");
		status = PTX_INVALID;
	} else {
		made->version = r->version;
		made->times = r->times;
		*error = r->error;
		error->text[sizeof(error->text) - 1] = 0;
	}
	if (status != PTX_OK) {
		free(result);
		return status;
	}
	made->piece = memmove(result, r + 1, r->piece_bytes);
	return PTX_OK;
}

static enum ptx_status run(const struct vcuda_compile_job *job, const struct ptx_wanted *w, struct ptx_made *made,
			   struct ptx_error *error)
{
	char why[sizeof(error->text)];
	size_t bytes;
	void *result;

	switch (compiler->run(job, &result, &bytes, why, sizeof(why))) {
	case VCUDA_COMPILE_DONE:
		return read_result(result, bytes, w, made, error);
	case VCUDA_COMPILE_FAILED: /* CUDA_ERROR_INVALID_PTX: "a PTX JIT compilation failed" */
		ptx_error_set(error, 0, "%s", why);
		return PTX_INVALID;
	case VCUDA_COMPILE_NO_MEMORY:
		ptx_error_set(error, 0, "%s", why);
		return PTX_NO_MEMORY;
	default:
		return PTX_NO_MEMORY;
	}
}

enum ptx_status ptx_elsewhere_make(const struct ptx_wanted *w, struct ptx_made *made, struct ptx_error *error)
{
	const struct ptx_module *m = w->kernel->function->module;
	struct ptx_order order = {.text = m->text,
				  .kernel = (uint32_t)(w->kernel - m->kernels),
				  .version = w->version,
				  .choose = w->choose};
	struct vcuda_compile_job job = {.module = module_file(m),
					.order = &order,
					.order_bytes = sizeof(order),
					.kernel = w->kernel->info.name,
					.background = !w->choose && !w->urgent,
					.unwanted = w->choose ? NULL : &m->gone};
	enum ptx_status status;

	if (job.module < 0)
		return PTX_NO_MEMORY;
	memcpy(order.blockdim, w->blockdim, sizeof(order.blockdim));
	status = run(&job, w, made, error);
	close(job.module);
	if (status != PTX_OK) {
		pthread_mutex_lock(&kept.lock);
		forget_kept();
		pthread_mutex_unlock(&kept.lock);
	}
	return status;
}
