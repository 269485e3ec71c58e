/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's cuRAND: a generator of its for each of the guest's. A guest's thread may use one while another does, which
 * cuRAND does not allow: each has a lock.
 */
#include "random.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/log.h"

#define LIBRARY "libcurand.so.10"

/* The status codes of cuRAND. */
enum {
	SUCCESS = 0,
	NOT_INITIALIZED = 101,
	ALLOCATION_FAILED = 102,
	TYPE_ERROR = 103,
	OUT_OF_RANGE = 104,
	LENGTH_NOT_MULTIPLE = 105,
	ARCH_MISMATCH = 204,
};

struct vcuda_generator_st {
	void *handle; /* NULL: its context has ended */
	CUcontext context;
	uint32_t type;
	CUstream stream;
	pthread_mutex_t lock;
	unsigned int users; /* with the list's lock: who last lets go of it frees it */
	struct vcuda_generator_st *next;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a generator's */
static vcuda_generator list;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct vcuda_backend_ops *driver;

static struct {
	int (*create)(void **generator, int type);
	int (*destroy)(void *generator);
	int (*set_stream)(void *generator, CUstream stream);
	int (*set_seed)(void *generator, unsigned long long seed);
	int (*set_offset)(void *generator, unsigned long long offset);
	int (*set_ordering)(void *generator, int ordering);
	int (*set_dimensions)(void *generator, unsigned int dimensions);
	void *generate[VCUDA_RANDOM_KINDS];
	int (*directions_32)(unsigned int (**vectors)[32], int set);
	int (*directions_64)(unsigned long long (**vectors)[64], int set);
	int (*constants_32)(unsigned int **constants);
	int (*constants_64)(unsigned long long **constants);
} curand;

enum { SCRAMBLED_32 = 102, SCRAMBLED_64 = 104 }; /* sets of directions */

static const char *const names[VCUDA_RANDOM_KINDS] = {
	[VCUDA_RANDOM_BITS] = "curandGenerate",
	[VCUDA_RANDOM_LONG_BITS] = "curandGenerateLongLong",
	[VCUDA_RANDOM_UNIFORM] = "curandGenerateUniform",
	[VCUDA_RANDOM_UNIFORM_DOUBLE] = "curandGenerateUniformDouble",
	[VCUDA_RANDOM_NORMAL] = "curandGenerateNormal",
	[VCUDA_RANDOM_NORMAL_DOUBLE] = "curandGenerateNormalDouble",
	[VCUDA_RANDOM_LOG_NORMAL] = "curandGenerateLogNormal",
	[VCUDA_RANDOM_LOG_NORMAL_DOUBLE] = "curandGenerateLogNormalDouble",
	[VCUDA_RANDOM_POISSON] = "curandGeneratePoisson",
};

static void load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool complete = true;

	if (!library) {
		vcuda_log("no cuRAND for guests: the host lacks " LIBRARY
			  " (any toolkit of NVIDIA's, or its package libcurand)");
		return;
	}
	curand.destroy = (int (*)(void *))dlsym(library, "curandDestroyGenerator");
	curand.set_stream = (int (*)(void *, CUstream))dlsym(library, "curandSetStream");
	curand.set_seed = (int (*)(void *, unsigned long long))dlsym(library, "curandSetPseudoRandomGeneratorSeed");
	curand.set_offset = (int (*)(void *, unsigned long long))dlsym(library, "curandSetGeneratorOffset");
	curand.set_ordering = (int (*)(void *, int))dlsym(library, "curandSetGeneratorOrdering");
	curand.set_dimensions =
		(int (*)(void *, unsigned int))dlsym(library, "curandSetQuasiRandomGeneratorDimensions");
	curand.directions_32 = (int (*)(unsigned int(**)[32], int))dlsym(library, "curandGetDirectionVectors32");
	curand.directions_64 = (int (*)(unsigned long long(**)[64], int))dlsym(library, "curandGetDirectionVectors64");
	curand.constants_32 = (int (*)(unsigned int **))dlsym(library, "curandGetScrambleConstants32");
	curand.constants_64 = (int (*)(unsigned long long **))dlsym(library, "curandGetScrambleConstants64");
	for (unsigned int i = 0; i < VCUDA_RANDOM_KINDS; i++) {
		curand.generate[i] = dlsym(library, names[i]);
		complete &= curand.generate[i] != NULL;
	}
	if (complete && curand.destroy && curand.set_stream && curand.set_seed && curand.set_offset &&
	    curand.set_ordering && curand.set_dimensions && curand.directions_32 && curand.directions_64 &&
	    curand.constants_32 && curand.constants_64)
		curand.create = (int (*)(void **, int))dlsym(library, "curandCreateGenerator");
	if (!curand.create)
		vcuda_log("no cuRAND for guests: the host's " LIBRARY " lacks functions");
}

static CUresult result_of(int status)
{
	switch (status) {
	case SUCCESS:
		return CUDA_SUCCESS;
	case ALLOCATION_FAILED:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case TYPE_ERROR:
	case OUT_OF_RANGE:
	case LENGTH_NOT_MULTIPLE:
		return CUDA_ERROR_INVALID_VALUE;
	case NOT_INITIALIZED:
	case ARCH_MISMATCH:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

static CUresult create(vcuda_generator *generator, uint32_t type)
{
	vcuda_generator g;
	int status;

	pthread_once(&once, load);
	if (!curand.create)
		return CUDA_ERROR_NOT_SUPPORTED;
	g = calloc(1, sizeof(*g));
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	status = curand.create(&g->handle, (int)type);
	if (status != SUCCESS) {
		vcuda_log("the host's curandCreateGenerator() gave status %d for type %u", status, type);
		free(g);
		return result_of(status);
	}
	g->type = type;
	g->users = 1;
	pthread_mutex_init(&g->lock, NULL);
	driver->cuCtxGetCurrent(&g->context);
	pthread_mutex_lock(&list_lock);
	g->next = list;
	list = g;
	pthread_mutex_unlock(&list_lock);
	*generator = g;
	return CUDA_SUCCESS;
}

/* False: the generator was destroyed after its address was resolved. */
static bool use(vcuda_generator wanted)
{
	vcuda_generator g;

	pthread_mutex_lock(&list_lock);
	for (g = list; g && g != wanted; g = g->next)
		continue;
	if (g)
		g->users++;
	pthread_mutex_unlock(&list_lock);
	return g;
}

static void let_go(vcuda_generator g)
{
	bool last;

	pthread_mutex_lock(&list_lock);
	last = --g->users == 0;
	pthread_mutex_unlock(&list_lock);
	if (!last)
		return;
	if (g->handle)
		curand.destroy(g->handle);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

/* Generation that is still running may use the generator's memory. */
static CUresult destroy(vcuda_generator g)
{
	CUresult result = driver->cuCtxSynchronize();
	vcuda_generator *at;

	pthread_mutex_lock(&list_lock);
	for (at = &list; *at && *at != g; at = &(*at)->next)
		continue;
	if (*at)
		*at = g->next;
	else
		g = NULL;
	pthread_mutex_unlock(&list_lock);
	if (!g)
		return CUDA_ERROR_INVALID_HANDLE;
	let_go(g);
	return result;
}

void backend_random_forget(CUcontext context)
{
	pthread_mutex_lock(&list_lock);
	for (vcuda_generator g = list; g; g = g->next) {
		if (g->context != context)
			continue;
		pthread_mutex_lock(&g->lock);
		if (g->handle)
			curand.destroy(g->handle);
		g->handle = NULL;
		pthread_mutex_unlock(&g->lock);
	}
	pthread_mutex_unlock(&list_lock);
}

/* Only what a type has can be set. */
static int begin_anew(void *handle, const vcuda_random *r)
{
	bool quasi = vcuda_random_is_quasi(r->type);
	int status = curand.set_ordering(handle, (int)r->ordering);

	if (status == SUCCESS && quasi)
		status = curand.set_dimensions(handle, r->dimensions);
	if (status == SUCCESS && !quasi)
		status = curand.set_seed(handle, r->seed);
	if (status == SUCCESS && r->type != VCUDA_RANDOM_MTGP32 && r->type != VCUDA_RANDOM_MT19937)
		status = curand.set_offset(handle, r->offset);
	return status;
}

static int call(void *handle, const vcuda_random *r)
{
	void *function = curand.generate[r->kind], *out = (void *)(uintptr_t)r->address;

	switch (r->kind) {
	case VCUDA_RANDOM_NORMAL:
	case VCUDA_RANDOM_LOG_NORMAL:
		return ((int (*)(void *, void *, size_t, float, float))function)(handle, out, r->count, (float)r->a,
										 (float)r->b);
	case VCUDA_RANDOM_NORMAL_DOUBLE:
	case VCUDA_RANDOM_LOG_NORMAL_DOUBLE:
		return ((int (*)(void *, void *, size_t, double, double))function)(handle, out, r->count, r->a, r->b);
	case VCUDA_RANDOM_POISSON:
		return ((int (*)(void *, void *, size_t, double))function)(handle, out, r->count, r->a);
	default:
		return ((int (*)(void *, void *, size_t))function)(handle, out, r->count);
	}
}

static CUresult generate(CUstream stream, vcuda_generator g, void *random)
{
	const vcuda_random *r = random;
	int status = SUCCESS;
	CUresult result;

	if (!use(g))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&g->lock);
	result = !g->handle ? CUDA_ERROR_INVALID_HANDLE : g->type != r->type ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS) {
		pthread_mutex_unlock(&g->lock);
		let_go(g);
		return result;
	}
	if (g->stream != stream)
		status = curand.set_stream(g->handle, stream);
	if (status == SUCCESS)
		g->stream = stream;
	if (status == SUCCESS && r->fresh)
		status = begin_anew(g->handle, r);
	if (status == SUCCESS)
		status = call(g->handle, r);
	pthread_mutex_unlock(&g->lock);
	let_go(g);
	return result_of(status);
}

static CUresult scrambles_32(uint32_t first, uint32_t dimensions, uint64_t *words)
{
	unsigned int(*directions)[32], *constants;
	int status = curand.directions_32(&directions, SCRAMBLED_32);

	if (status == SUCCESS)
		status = curand.constants_32(&constants);
	for (uint32_t i = first; i < first + dimensions && status == SUCCESS; i++) {
		for (unsigned int k = 0; k < 32; k++)
			*words++ = directions[i][k];
		*words++ = constants[i];
	}
	return result_of(status);
}

static CUresult scrambles_64(uint32_t first, uint32_t dimensions, uint64_t *words)
{
	unsigned long long(*directions)[64], *constants;
	int status = curand.directions_64(&directions, SCRAMBLED_64);

	if (status == SUCCESS)
		status = curand.constants_64(&constants);
	for (uint32_t i = first; i < first + dimensions && status == SUCCESS; i++) {
		for (unsigned int k = 0; k < 64; k++)
			*words++ = directions[i][k];
		*words++ = constants[i];
	}
	return result_of(status);
}

static CUresult scrambles(uint32_t bits, uint32_t first, uint32_t dimensions, void *words)
{
	pthread_once(&once, load);
	if (!curand.create)
		return CUDA_ERROR_NOT_SUPPORTED;
	return bits == 32 ? scrambles_32(first, dimensions, words) : scrambles_64(first, dimensions, words);
}

void backend_random_init(struct vcuda_backend_ops *ops)
{
	driver = ops;
	ops->randomCreate = create;
	ops->randomDestroy = destroy;
	ops->random = generate;
	ops->randomScrambles = scrambles;
}
