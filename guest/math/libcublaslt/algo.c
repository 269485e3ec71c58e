/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms: what the worker says of them, and what a program sets in them. */
#include <string.h>

#include "protocol/blas-abi.h"
#include "protocol/cuda-functions.h"
#include "lt.h"

#define OBJECT struct vcuda_matmul_algo
#define ATTRIBUTE(number, type, member, standard) {number, offsetof(OBJECT, member), sizeof(type)},
static const struct lt_attribute attributes[] = {VCUDA_MATMUL_ALGO_ATTRIBUTES(ATTRIBUTE)};

#define COUNT (sizeof(attributes) / sizeof(attributes[0]))

_Static_assert(sizeof(struct lt_algo) <= sizeof(cublasLtMatmulAlgo_t), "it fits");

static void give_algo(const struct vcuda_matmul_algo *from, const vcuda_matmul *m, cublasLtMatmulAlgo_t *to)
{
	struct lt_algo algo = {*from,
			       (uint8_t)m->desc.compute,
			       (uint8_t)m->desc.scale,
			       (uint8_t)m->a.type,
			       (uint8_t)m->b.type,
			       (uint8_t)m->c.type,
			       (uint8_t)m->d.type,
			       LT_MAGIC};

	memset(to, 0, sizeof(*to));
	memcpy(to, &algo, sizeof(algo));
}

static void give_result(const struct vcuda_matmul_result *from, lt_result *to)
{
	to->workspaceSize = from->workspace;
	to->state = from->state;
	to->wavesCount = from->waves;
	memset(to->reserved, 0, sizeof(to->reserved));
}

BLAS_API int cublasLtMatmulAlgoGetHeuristic(const struct lt_handle *h, const lt_desc *desc, const lt_layout *a,
					    const lt_layout *b, const lt_layout *c, const lt_layout *d,
					    const lt_preference *preference, int wanted, lt_result *results, int *given)
{
	struct vcuda_matmul_result found[VCUDA_MATMUL_MOST_RESULTS];
	vcuda_matmul_question q = {.kind = VCUDA_MATMUL_HEURISTIC};
	unsigned int count = 0;
	int status = !h ? BLAS_NOT_INITIALIZED : lt_describe(&q.matmul, desc, a, b, c, d);

	if (!status && (!preference || wanted < 1 || !results || !given))
		status = BLAS_INVALID_VALUE;
	if (!status) {
		q.preference = *preference;
		q.count = wanted < VCUDA_MATMUL_MOST_RESULTS ? (unsigned int)wanted : VCUDA_MATMUL_MOST_RESULTS;
		if (preference->search == CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID)
			memcpy(&q.matmul.algo, &results->algo, sizeof(q.matmul.algo));
		status = lt_heuristic(h, &q, found, &count);
		*given = (int)count;
	}
	for (unsigned int i = 0; i < count && !status; i++) {
		give_algo(&found[i].algo, &q.matmul, &results[i].algo);
		give_result(&found[i], &results[i]);
	}
	lt_log_call("cublasLtMatmulAlgoGetHeuristic", status);
	return status;
}

/* A question whose answer is one result. */
static int ask_one(const struct lt_handle *h, vcuda_matmul_question *q, struct vcuda_matmul_result *result)
{
	unsigned int words;
	int status = blas_enter(h->context);

	q->count = 1;
	if (!status)
		status = vcuda_matmul_question_check(q, VCUDA_MATMUL_RESULT_WORDS);
	if (!status)
		status =
			blas_status(cuVcudaMatmulAsk(q, VCUDA_MATMUL_RESULT_WORDS, &words, (uint64_t *)(void *)result));
	return !status && words != VCUDA_MATMUL_RESULT_WORDS ? BLAS_NOT_SUPPORTED : status;
}

BLAS_API int cublasLtMatmulAlgoCheck(const struct lt_handle *h, const lt_desc *desc, const lt_layout *a,
				     const lt_layout *b, const lt_layout *c, const lt_layout *d,
				     const struct lt_algo *algo, lt_result *result)
{
	vcuda_matmul_question q = {.kind = VCUDA_MATMUL_CHECK};
	struct vcuda_matmul_result found;
	int status = !h ? BLAS_NOT_INITIALIZED : lt_describe(&q.matmul, desc, a, b, c, d);

	if (!status && (!result || !algo || algo->magic != LT_MAGIC))
		status = BLAS_INVALID_VALUE;
	if (status)
		return status;
	q.matmul.algo = algo->algo;
	status = ask_one(h, &q, &found);
	if (!status)
		give_result(&found, result);
	return status;
}

static void set_types(vcuda_matmul *m, int compute, int scale, int a, int b, int c, int d)
{
	m->desc.compute = compute;
	m->desc.scale = scale;
	m->a.type = (uint32_t)a;
	m->b.type = (uint32_t)b;
	m->c.type = (uint32_t)c;
	m->d.type = (uint32_t)d;
}

BLAS_API int cublasLtMatmulAlgoGetIds(const struct lt_handle *h, int compute, int scale, int a, int b, int c, int d,
				      int wanted, int *ids, int *given)
{
	vcuda_matmul_question q = {.kind = VCUDA_MATMUL_IDS};
	uint64_t words[VCUDA_MATMUL_MOST_WORDS];
	unsigned int count = 0;
	int status = !h                             ? BLAS_NOT_INITIALIZED
		     : wanted < 1 || !ids || !given ? BLAS_INVALID_VALUE
						    : blas_enter(h->context);

	if (status)
		return status;
	set_types(&q.matmul, compute, scale, a, b, c, d);
	q.count = wanted < VCUDA_MATMUL_MOST_WORDS ? (unsigned int)wanted : VCUDA_MATMUL_MOST_WORDS;
	status = vcuda_matmul_question_check(&q, q.count);
	if (!status)
		status = blas_status(cuVcudaMatmulAsk(&q, q.count, &count, words));
	if (status)
		return status;
	*given = 0;
	for (unsigned int i = 0; i < count && i < q.count; i++)
		ids[(*given)++] = (int)words[i];
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtMatmulAlgoInit(const struct lt_handle *h, int compute, int scale, int a, int b, int c, int d,
				    int id, cublasLtMatmulAlgo_t *algo)
{
	vcuda_matmul_question q = {.kind = VCUDA_MATMUL_INIT, .attribute = (uint32_t)id};
	struct vcuda_matmul_result found;
	int status;

	if (!h || !algo)
		return h ? BLAS_INVALID_VALUE : BLAS_NOT_INITIALIZED;
	set_types(&q.matmul, compute, scale, a, b, c, d);
	status = ask_one(h, &q, &found);
	if (!status)
		give_algo(&found.algo, &q.matmul, algo);
	return status;
}

BLAS_API int cublasLtMatmulAlgoConfigSetAttribute(struct lt_algo *algo, int number, const void *from, size_t size)
{
	if (number == CUBLASLT_ALGO_CONFIG_ID)
		return BLAS_INVALID_VALUE; /* set when the algorithm was made, and constant since */
	return lt_set(algo, sizeof(algo->algo), attributes, COUNT, number, from, size);
}

BLAS_API int cublasLtMatmulAlgoConfigGetAttribute(const struct lt_algo *algo, int number, void *to, size_t size,
						  size_t *written)
{
	return lt_get(algo, sizeof(algo->algo), attributes, COUNT, number, to, size, written);
}

/* The first word of the answer is how many bytes there are. */
BLAS_API int cublasLtMatmulAlgoCapGetAttribute(const struct lt_algo *algo, int number, void *to, size_t size,
					       size_t *written)
{
	vcuda_matmul_question q = {.kind = VCUDA_MATMUL_CAPS, .attribute = (uint32_t)number};
	uint64_t words[VCUDA_MATMUL_MOST_WORDS];
	size_t most = sizeof(words) - sizeof(words[0]);
	unsigned int count;
	CUresult result;
	int status;

	if (!algo || algo->magic != LT_MAGIC || (size ? !to : !written))
		return BLAS_INVALID_VALUE;
	set_types(&q.matmul, algo->compute, algo->scale, algo->a, algo->b, algo->c, algo->d);
	q.matmul.algo = algo->algo;
	q.count = (uint32_t)(size < most ? size : most);
	status = vcuda_matmul_question_check(&q, VCUDA_MATMUL_MOST_WORDS);
	if (status)
		return status;
	result = cuVcudaMatmulAsk(&q, VCUDA_MATMUL_MOST_WORDS, &count, words);
	if (result != CUDA_SUCCESS)
		return blas_status(result);
	if (words[0] > most || (size && words[0] > size))
		return BLAS_INVALID_VALUE;
	if (size)
		memcpy(to, words + 1, words[0]);
	if (written)
		*written = words[0];
	return BLAS_SUCCESS;
}
