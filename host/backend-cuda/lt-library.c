/* SPDX-License-Identifier: Apache-2.0 */
#include "lt-library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "blas.h"
#include "common/log.h"

#define MOST_SPLITS 1024
/* Shapes of clusters and within a kernel have no capability that lists them: of this release their numbers are known.
 */
#define VERSION_OF_SHAPES 130000

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"};

static struct lt_library library;

/* A member of the library, and the function that it is. */
#define FUNCTIONS(X)                                                                                                   \
	X(create, Create)                                                                                              \
	X(destroy, Destroy)                                                                                            \
	X(version, GetVersion)                                                                                         \
	X(desc_create, MatmulDescCreate)                                                                               \
	X(desc_destroy, MatmulDescDestroy)                                                                             \
	X(desc_set, MatmulDescSetAttribute)                                                                            \
	X(layout_create, MatrixLayoutCreate)                                                                           \
	X(layout_destroy, MatrixLayoutDestroy)                                                                         \
	X(layout_set, MatrixLayoutSetAttribute)                                                                        \
	X(preference_create, MatmulPreferenceCreate)                                                                   \
	X(preference_destroy, MatmulPreferenceDestroy)                                                                 \
	X(preference_set, MatmulPreferenceSetAttribute)                                                                \
	X(transform_create, MatrixTransformDescCreate)                                                                 \
	X(transform_destroy, MatrixTransformDescDestroy)                                                               \
	X(transform_set, MatrixTransformDescSetAttribute)                                                              \
	X(heuristic, MatmulAlgoGetHeuristic)                                                                           \
	X(algo_ids, MatmulAlgoGetIds)                                                                                  \
	X(algo_init, MatmulAlgoInit)                                                                                   \
	X(algo_check, MatmulAlgoCheck)                                                                                 \
	X(algo_cap, MatmulAlgoCapGetAttribute)                                                                         \
	X(algo_get, MatmulAlgoConfigGetAttribute)                                                                      \
	X(algo_set, MatmulAlgoConfigSetAttribute)                                                                      \
	X(matmul, Matmul)                                                                                              \
	X(transform, MatrixTransform)

static void *look_up(void *handle, const char *name)
{
	void *function = dlsym(handle, name);

	if (!function)
		vcuda_log("the host's cuBLASLt has no %s", name);
	return function;
}

static bool load(void)
{
	void *handle = NULL;
	bool complete = true;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !handle; i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		vcuda_log("no cuBLASLt for guests: the host lacks libcublasLt.so.13, .12 and .11 (NVIDIA's package "
			  "libcublas-13-0, or any toolkit)");
		return false;
	}
#define LOOK_UP(member, function)                                                                                      \
	library.member = (__typeof__(library.member))look_up(handle, "cublasLt" #function);                            \
	complete = complete && library.member;
	FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	return complete;
}

const struct lt_library *backend_lt_open(void)
{
	return load() ? &library : NULL;
}

/* ---- algorithms ---- */

#define PLACES 8192 /* a power of 2; a guest may ask for as many as it likes, and gets no more kept */

static struct checked_algo {
	bool used;
	cublasLtMatmulAlgo_t algo;
	struct vcuda_matmul_algo settings;
} checked_algos[PLACES];

static pthread_mutex_t checked_algos_lock = PTHREAD_MUTEX_INITIALIZER;

static struct vcuda_matmul_algo settings_of(const struct lt_library *lt, const cublasLtMatmulAlgo_t *algo)
{
	struct vcuda_matmul_algo s = {0};

	/* An older library lacks some of the functions. */
#define GET(number, type, member, standard) (void)lt->algo_get(algo, number, &s.member, sizeof(type), NULL);
	VCUDA_MATMUL_ALGO_ATTRIBUTES(GET)
#undef GET
	return s;
}

static uint32_t hash(const cublasLtMatmulAlgo_t *algo)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < sizeof(algo->data) / sizeof(algo->data[0]); i++) {
		h = (h ^ algo->data[i]) * 0x9e3779b97f4a7c15;
		h ^= h >> 29;
	}
	return (uint32_t)h;
}

struct vcuda_matmul_algo backend_lt_algo_add(const struct lt_library *lt, const cublasLtMatmulAlgo_t *algo)
{
	struct vcuda_matmul_algo s = settings_of(lt, algo);
	uint32_t first = hash(algo);

	pthread_mutex_lock(&checked_algos_lock);
	for (uint32_t i = 0; i < 64 && !s.place; i++) {
		uint32_t place = (first + i) % PLACES;
		struct checked_algo *k = &checked_algos[place];

		if (k->used && memcmp(&k->algo, algo, sizeof(*algo)))
			continue;
		k->used = true;
		k->algo = *algo;
		s.place = place + 1;
		k->settings = s;
	}
	pthread_mutex_unlock(&checked_algos_lock);
	return s;
}

static bool recall(const struct vcuda_matmul_algo *settings, cublasLtMatmulAlgo_t *algo)
{
	const struct checked_algo *k = &checked_algos[(settings->place - 1) % PLACES];
	bool same;

	if (!settings->place || settings->place > PLACES)
		return false;
	pthread_mutex_lock(&checked_algos_lock);
	same = k->used && !memcmp(&k->settings, settings, sizeof(*settings));
	if (same)
		*algo = k->algo;
	pthread_mutex_unlock(&checked_algos_lock);
	return same;
}

/* Whether an array among the capabilities of an algorithm has it. */
static bool lists(const struct lt_library *lt, const cublasLtMatmulAlgo_t *algo, int capability, uint32_t id)
{
	uint32_t ids[1024];
	size_t written = 0;

	if (!id)
		return true;
	if (lt->algo_cap(algo, capability, NULL, 0, &written) || !written || written > sizeof(ids) ||
	    lt->algo_cap(algo, capability, ids, written, &written))
		return false;
	for (size_t i = 0; i < written / sizeof(ids[0]); i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* 0 where there is no such capability. */
static uint32_t limit_of(const struct lt_library *lt, const cublasLtMatmulAlgo_t *algo, int capability)
{
	uint32_t value = 0;

	return lt->algo_cap(algo, capability, &value, sizeof(value), NULL) ? 0 : value;
}

/* The library takes a guest's numbers for places in tables of its own, and does not look. */
static bool are_sound(const struct lt_library *lt, const cublasLtMatmulAlgo_t *algo, const struct vcuda_matmul_algo *s)
{
	bool knows_shapes = lt->version() >= VERSION_OF_SHAPES;

	return lists(lt, algo, CUBLASLT_ALGO_CAP_TILE_IDS, s->tile) &&
	       lists(lt, algo, CUBLASLT_ALGO_CAP_STAGES_IDS, s->stages) && s->splits >= 0 &&
	       s->splits <= (limit_of(lt, algo, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) ? MOST_SPLITS : 1) &&
	       !(s->reduction & ~limit_of(lt, algo, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK)) &&
	       s->swizzling <= limit_of(lt, algo, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT) &&
	       s->option <= limit_of(lt, algo, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX) &&
	       s->inner < (knows_shapes ? CUBLASLT_MATMUL_INNER_SHAPE_END : 1) &&
	       s->cluster < (knows_shapes ? CUBLASLT_CLUSTER_SHAPE_END : 1);
}

int backend_lt_find(const struct lt_library *lt, void *handle, const vcuda_matmul *m, cublasLtMatmulAlgo_t *algo)
{
	const struct vcuda_matmul_algo *s = &m->algo;
	int status;

	if (recall(s, algo))
		return 0;
	status = lt->algo_init(handle, m->desc.compute, m->desc.scale, (int)m->a.type, (int)m->b.type, (int)m->c.type,
			       (int)m->d.type, s->id, algo);
	if (!status && !are_sound(lt, algo, s))
		return CUBLAS_STATUS_INVALID_VALUE;
		/* Attributes that are 0 are not set: an older library may not know them. */
#define SET(number, type, member, standard)                                                                            \
	if (!status && number != CUBLASLT_ALGO_CONFIG_ID && s->member)                                                 \
		status = lt->algo_set(algo, number, &s->member, sizeof(type));
	VCUDA_MATMUL_ALGO_ATTRIBUTES(SET)
#undef SET
	return status;
}
