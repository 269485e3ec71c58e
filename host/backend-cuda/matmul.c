/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products by the host's cuBLASLt. Each product makes new descriptors of the guest's description. An attribute that has
 * its default value is not set.
 */
#include "matmul.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "blas.h"
#include "handles.h"
#include "common/log.h"
#include "lt-library.h"

static struct backend_handles handles = {.create_name = "cublasLtCreate", .lock = PTHREAD_MUTEX_INITIALIZER};

static const struct lt_library *library;

static void open_library(void)
{
	library = backend_lt_open();
	if (!library)
		return;
	handles.create = library->create;
	handles.destroy = library->destroy;
}

static CUresult enter(const struct lt_library **lt, struct backend_handle **h)
{
	static pthread_once_t opened = PTHREAD_ONCE_INIT;

	pthread_once(&opened, open_library);
	*lt = library;
	return library ? backend_handles_take(&handles, h) : CUDA_ERROR_NOT_SUPPORTED;
}

void backend_matmul_forget(CUcontext context)
{
	backend_handles_forget(&handles, context);
}

/* ---- descriptions ---- */

/* A product as the library has it. All are NULL, or to be destroyed. */
struct described {
	void *desc, *a, *b, *c, *d, *preference;
};

/* Sets each attribute of the structure `given` that differs from its default. */
#define SET(number, type, member, standard)                                                                            \
	if (!status && given->member != (type)(standard))                                                              \
		status = set(object, number, &given->member, sizeof(type));

static int describe_layout(const struct lt_library *lt, const struct vcuda_matmul_layout *given, void **layout)
{
	int status = lt->layout_create(layout, given->type, given->rows, given->columns, given->ld);
	lt_set set = lt->layout_set;
	void *object = *layout;

	/* The first of them are what it was made with, once more. */
	VCUDA_MATMUL_LAYOUT_ATTRIBUTES(SET)
	return status;
}

static int describe_desc(const struct lt_library *lt, const struct vcuda_matmul_desc *given, void **desc)
{
	int status = lt->desc_create(desc, given->compute, given->scale);
	lt_set set = lt->desc_set;
	void *object = *desc;

	VCUDA_MATMUL_ATTRIBUTES(SET)
	return status;
}

static int describe_preference(const struct lt_library *lt, const struct vcuda_matmul_preference *given,
			       void **preference)
{
	int status = lt->preference_create(preference);
	lt_set set = lt->preference_set;
	void *object = *preference;

	VCUDA_MATMUL_PREFERENCE_ATTRIBUTES(SET)
	return status;
}

static int describe(const struct lt_library *lt, const vcuda_matmul *m, struct described *d)
{
	int status;

	memset(d, 0, sizeof(*d));
	if ((status = describe_desc(lt, &m->desc, &d->desc)) || (status = describe_layout(lt, &m->a, &d->a)) ||
	    (status = describe_layout(lt, &m->b, &d->b)) || (status = describe_layout(lt, &m->c, &d->c)))
		return status;
	return describe_layout(lt, &m->d, &d->d);
}

static void forget(const struct lt_library *lt, struct described *d)
{
	void *const layouts[] = {d->a, d->b, d->c, d->d};

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i])
			lt->layout_destroy(layouts[i]);
	if (d->desc)
		lt->desc_destroy(d->desc);
	if (d->preference)
		lt->preference_destroy(d->preference);
}

/* ---- products ---- */

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static CUresult report(const char *name, int status, const struct vcuda_matmul_layout *a,
		       const struct vcuda_matmul_layout *to, int epilogue, uint64_t workspace)
{
	static _Atomic int said;

	if (status != CUBLAS_STATUS_SUCCESS && atomic_exchange(&said, status) != status)
		vcuda_log("cuBLASLt: %s gave status %d (from type %d, order %d, %llu x %llu, to type %d, order %d, "
			  "%llu x %llu, epilogue %d, %llu bytes of workspace)",
			  name, status, (int)a->type, (int)a->order, (unsigned long long)a->rows,
			  (unsigned long long)a->columns, (int)to->type, (int)to->order, (unsigned long long)to->rows,
			  (unsigned long long)to->columns, epilogue, (unsigned long long)workspace);
	return backend_blas_result(status);
}

static CUresult matmul(CUstream stream, void *matmul)
{
	const vcuda_matmul *m = matmul;
	/* A double complex is aligned to 16 bytes, and cuBLAS takes that for granted. */
	_Alignas(16) const uint64_t alpha[2] = {m->alpha[0], m->alpha[1]};
	_Alignas(16) const uint64_t beta[2] = {m->beta[0], m->beta[1]};
	int mode = m->desc.pointer_mode, status;
	const struct lt_library *lt;
	cublasLtMatmulAlgo_t algo;
	struct described d;
	struct backend_handle *h;
	CUresult result = enter(&lt, &h);

	if (result != CUDA_SUCCESS)
		return result;
	status = describe(lt, m, &d);
	if (!status)
		status = backend_lt_find(lt, h->handle, m, &algo);
	if (!status)
		status = lt->matmul(h->handle, d.desc, vcuda_matmul_alpha_is_address(mode) ? pointer(alpha[0]) : alpha,
				    pointer(m->at_a), d.a, pointer(m->at_b), d.b,
				    vcuda_matmul_beta_is_address(mode) ? pointer(beta[0]) : beta, pointer(m->at_c), d.c,
				    pointer(m->at_d), d.d, &algo, pointer(m->workspace), m->workspace_bytes, stream);
	forget(lt, &d);
	backend_handles_put(&handles, h);
	return report("cublasLtMatmul", status, &m->a, &m->d, (int)m->desc.epilogue, m->workspace_bytes);
}

static int describe_transform(const struct lt_library *lt, const vcuda_transform *t, struct described *d)
{
	const struct vcuda_transform_desc *given = &t->desc;
	lt_set set = lt->transform_set;
	int status = lt->transform_create(&d->desc, given->scale);
	void *object = d->desc;

	VCUDA_TRANSFORM_ATTRIBUTES(SET)
	if (!status)
		status = describe_layout(lt, &t->a, &d->a);
	if (!status && t->at_b)
		status = describe_layout(lt, &t->b, &d->b);
	return status ? status : describe_layout(lt, &t->c, &d->c);
}

static CUresult transform(CUstream stream, void *transform)
{
	const vcuda_transform *t = transform;
	_Alignas(16) const uint64_t alpha[2] = {t->alpha[0], t->alpha[1]};
	_Alignas(16) const uint64_t beta[2] = {t->beta[0], t->beta[1]};
	bool device = t->desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST;
	struct described d = {0};
	const struct lt_library *lt;
	struct backend_handle *h;
	int status;
	CUresult result = enter(&lt, &h);

	if (result != CUDA_SUCCESS)
		return result;
	status = describe_transform(lt, t, &d);
	if (!status)
		status = lt->transform(h->handle, d.desc, device ? pointer(alpha[0]) : alpha, pointer(t->at_a), d.a,
				       device ? pointer(beta[0]) : beta, pointer(t->at_b), d.b, pointer(t->at_c), d.c,
				       stream);
	if (d.desc)
		lt->transform_destroy(d.desc);
	d.desc = NULL;
	forget(lt, &d);
	backend_handles_put(&handles, h);
	return report("cublasLtMatrixTransform", status, &t->a, &t->c, 0, 0);
}

/* ---- questions ---- */

static struct vcuda_matmul_result result_from(const struct lt_library *lt, const cublasLtMatmulHeuristicResult_t *r)
{
	return (struct vcuda_matmul_result){
		.algo = backend_lt_algo_add(lt, &r->algo),
		.workspace = r->workspaceSize,
		.state = r->state,
		.waves = r->wavesCount,
	};
}

static int ask_heuristic(const struct lt_library *lt, void *handle, const vcuda_matmul_question *q, struct described *d,
			 struct vcuda_matmul_result *results, uint32_t *count)
{
	cublasLtMatmulHeuristicResult_t found[VCUDA_MATMUL_MOST_RESULTS] = {0};
	int given = 0, status = describe_preference(lt, &q->preference, &d->preference);

	/* Then the first result has the algorithm that is to be configured. */
	if (!status && q->preference.search == CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID)
		status = backend_lt_find(lt, handle, &q->matmul, &found[0].algo);
	if (!status)
		status = lt->heuristic(handle, d->desc, d->a, d->b, d->c, d->d, d->preference, (int)q->count, found,
				       &given);
	for (int i = 0; i < given && i < (int)q->count && !status; i++, *count += VCUDA_MATMUL_RESULT_WORDS)
		results[i] = result_from(lt, &found[i]);
	return status;
}

static int ask_check(const struct lt_library *lt, void *handle, const vcuda_matmul_question *q, struct described *d,
		     struct vcuda_matmul_result *result, uint32_t *count)
{
	cublasLtMatmulHeuristicResult_t found = {0};
	cublasLtMatmulAlgo_t algo;
	int status = backend_lt_find(lt, handle, &q->matmul, &algo);

	if (!status)
		status = lt->algo_check(handle, d->desc, d->a, d->b, d->c, d->d, &algo, &found);
	if (status)
		return status;
	found.algo = algo;
	*result = result_from(lt, &found);
	*count = VCUDA_MATMUL_RESULT_WORDS;
	return CUBLAS_STATUS_SUCCESS;
}

static int ask_ids(const struct lt_library *lt, void *handle, const vcuda_matmul_question *q, uint64_t *words,
		   uint32_t *count)
{
	const vcuda_matmul *m = &q->matmul;
	int ids[VCUDA_MATMUL_MOST_WORDS], given = 0;
	int status = lt->algo_ids(handle, m->desc.compute, m->desc.scale, (int)m->a.type, (int)m->b.type,
				  (int)m->c.type, (int)m->d.type, (int)q->count, ids, &given);

	for (int i = 0; i < given && i < (int)q->count && !status; i++)
		words[(*count)++] = (uint64_t)ids[i];
	return status;
}

static int ask_init(const struct lt_library *lt, void *handle, const vcuda_matmul_question *q,
		    struct vcuda_matmul_result *result, uint32_t *count)
{
	const vcuda_matmul *m = &q->matmul;
	cublasLtMatmulHeuristicResult_t made = {0};
	int status = lt->algo_init(handle, m->desc.compute, m->desc.scale, (int)m->a.type, (int)m->b.type,
				   (int)m->c.type, (int)m->d.type, (int)q->attribute, &made.algo);

	if (status)
		return status;
	*result = result_from(lt, &made);
	*count = VCUDA_MATMUL_RESULT_WORDS;
	return CUBLAS_STATUS_SUCCESS;
}

static int ask_caps(const struct lt_library *lt, void *handle, const vcuda_matmul_question *q, uint64_t *words,
		    uint32_t *count)
{
	uint64_t bytes[VCUDA_MATMUL_MOST_WORDS] = {0};
	size_t written = 0, most = q->count < sizeof(bytes) ? q->count : sizeof(bytes);
	cublasLtMatmulAlgo_t algo;
	int status = backend_lt_find(lt, handle, &q->matmul, &algo);

	if (!status)
		status = lt->algo_cap(&algo, (int)q->attribute, most ? bytes : NULL, most, &written);
	if (status)
		return status;
	words[0] = written;
	*count = 1;
	if (!most || written > most)
		return CUBLAS_STATUS_SUCCESS;
	memcpy(words + 1, bytes, written);
	*count += (uint32_t)((written + 7) / 8);
	return CUBLAS_STATUS_SUCCESS;
}

static CUresult matmul_ask(void *question, void *words, uint32_t *count)
{
	const vcuda_matmul_question *q = question;
	bool of_product = q->kind == VCUDA_MATMUL_HEURISTIC || q->kind == VCUDA_MATMUL_CHECK;
	const struct lt_library *lt;
	struct described d = {0};
	int status = CUBLAS_STATUS_SUCCESS;
	struct backend_handle *h;
	CUresult result = enter(&lt, &h);

	*count = 0;
	if (result != CUDA_SUCCESS)
		return result;
	if (of_product)
		status = describe(lt, &q->matmul, &d);
	if (q->kind == VCUDA_MATMUL_OPEN)
		((uint64_t *)words)[(*count)++] = lt->version();
	else if (q->kind == VCUDA_MATMUL_IDS)
		status = ask_ids(lt, h->handle, q, words, count);
	else if (q->kind == VCUDA_MATMUL_INIT)
		status = ask_init(lt, h->handle, q, words, count);
	else if (q->kind == VCUDA_MATMUL_CAPS)
		status = ask_caps(lt, h->handle, q, words, count);
	else if (!status && q->kind == VCUDA_MATMUL_HEURISTIC)
		status = ask_heuristic(lt, h->handle, q, &d, words, count);
	else if (!status)
		status = ask_check(lt, h->handle, q, &d, words, count);
	forget(lt, &d);
	backend_handles_put(&handles, h);
	return backend_blas_result(status);
}

void backend_matmul_init(struct vcuda_backend_ops *ops)
{
	ops->matmulAsk = matmul_ask;
	ops->matmul = matmul;
	ops->transform = transform;
}
