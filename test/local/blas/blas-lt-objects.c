/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors, algorithms, and what the library says of itself. */
#include <stdio.h>
#include <string.h>

#include "blas-lt.h"
#include "protocol/cuda-functions.h"

enum { ALLOC_FAILED = 3, INVALID = 7, NOT_SUPPORTED = 15 };

struct attribute {
	int number;
	size_t size;
	int64_t standard;
};

static const struct attribute desc_attributes[] = {
	{2, 4, 0},  {3, 4, 0},  {4, 4, 0},   {5, 4, 0},  {6, 4, 2},  {7, 4, 1},  {8, 8, 0},  {10, 8, 0},
	{11, 8, 0}, {12, 8, 0}, {13, 8, 0},  {14, 8, 0}, {15, 4, 0}, {17, 8, 0}, {18, 8, 0}, {19, 8, 0},
	{20, 8, 0}, {21, 8, 0}, {22, 4, -1}, {23, 8, 0}, {24, 8, 0}, {25, 1, 0}, {26, 4, -1}};
static const struct attribute layout_attributes[] = {{1, 4, 0}, {2, 8, 11}, {3, 8, 12}, {4, 8, 13},
						     {5, 4, 1}, {6, 8, 0},  {7, 8, 0}};
static const struct attribute preference_attributes[] = {{0, 4, 0},   {1, 8, 0},   {3, 4, 7}, {5, 4, 256}, {6, 4, 256},
							 {7, 4, 256}, {8, 4, 256}, {9, 4, 0}, {12, 8, -1}};
static const struct attribute transform_attributes[] = {{1, 4, 0}, {2, 4, 0}, {3, 4, 0}};

static int64_t value_of(const void *object, lt_get_function get, const struct attribute *a)
{
	int64_t value = 0;
	int32_t narrow;
	size_t written = 99;

	CHECK(!get(object, a->number, &value, a->size, &written) && written == a->size);
	memcpy(&narrow, &value, sizeof(narrow));
	return a->size == 4 ? narrow : value;
}

/* Each by itself: defaults, what is set, and what is wrong. */
static void attributes(void *object, lt_set_function set, lt_get_function get, const struct attribute *a, size_t count)
{
	char room[16];
	size_t size;

	for (size_t i = 0; i < count; i++)
		CHECK(value_of(object, get, &a[i]) == a[i].standard);
	for (size_t i = 0; i < count; i++) {
		int64_t value = 5 + (int64_t)i;

		CHECK(!set(object, a[i].number, &value, a[i].size));
		CHECK(!get(object, a[i].number, NULL, 0, &size) && size == a[i].size);
		CHECK(set(object, a[i].number, &value, a[i].size + 1) == INVALID);
		CHECK(set(object, a[i].number, NULL, a[i].size) == INVALID);
		CHECK(get(object, a[i].number, room, a[i].size + 1, &size) == INVALID);
		CHECK(get(object, a[i].number, room, 0, NULL) == INVALID);
		CHECK(!get(object, a[i].number, room, a[i].size, NULL));
	}
	for (size_t i = 0; i < count; i++)
		CHECK(value_of(object, get, &a[i]) == 5 + (int64_t)i);
	CHECK(set(object, 99, room, 4) == INVALID && get(object, 99, room, 4, &size) == INVALID);
	CHECK(set(NULL, a->number, room, a->size) == INVALID);
}

#define ATTRIBUTES(object, Name, table)                                                                                \
	attributes(object, lt.Name##SetAttribute, lt.Name##GetAttribute, table, sizeof(table) / sizeof((table)[0]))

static bool is_of_11(void)
{
	return lt.GetVersion() < 120000;
}

/* The attributes that CUDA 11's preference has and later ones do not. */
static void old_attributes(void *preference)
{
	static const int numbers[] = {2, 4, 10, 11, 13};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		uint32_t value = 77 + (uint32_t)i, there = 0;
		int status = lt.MatmulPreferenceSetAttribute(preference, numbers[i], &value, 4);

		CHECK(status == (is_of_11() ? 0 : INVALID));
		CHECK(lt.MatmulPreferenceGetAttribute(preference, numbers[i], &there, 4, NULL) == status);
		CHECK(there == (status ? 0 : value));
	}
}

/* In the program's own memory, with as much of it as its release has; nothing behind it is touched. */
static void in_place(void)
{
	static const size_t rooms[] = {88, 184, 256};
	cublasLtMatrixLayoutOpaque_t layout;
	uint64_t preference[10];
	cublasLtMatrixTransformDescOpaque_t transform;

	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		uint64_t memory[40], address = 0x1234, there = 0;

		memset(memory, 0xa5, sizeof(memory));
		CHECK(!lt.MatmulDescInit_internal(memory, rooms[i], 68, 0));
		CHECK(!lt.MatmulDescSetAttribute(memory, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, 8));
		CHECK(!lt.MatmulDescGetAttribute(memory, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &there, 8, NULL));
		CHECK(there == address);
		for (size_t j = rooms[i] / 8; j < 40; j++)
			CHECK(memory[j] == 0xa5a5a5a5a5a5a5a5);
	}
	CHECK(!lt.MatrixLayoutInit_internal(&layout, sizeof(layout), 0, 11, 12, 13));
	ATTRIBUTES(&layout, MatrixLayout, layout_attributes);
	/* CUDA 11's has ten words, later ones eight. */
	memset(preference, 0xa5, sizeof(preference));
	CHECK(!lt.MatmulPreferenceInit_internal(preference, is_of_11() ? 80 : 64));
	ATTRIBUTES(preference, MatmulPreference, preference_attributes);
	old_attributes(preference);
	CHECK(is_of_11() || (preference[8] == 0xa5a5a5a5a5a5a5a5 && preference[9] == 0xa5a5a5a5a5a5a5a5));
	CHECK(!lt.MatrixTransformDescInit_internal(&transform, sizeof(transform), 0));
	ATTRIBUTES(&transform, MatrixTransformDesc, transform_attributes);
	CHECK(lt.MatrixLayoutInit_internal(&layout, 32, 0, 1, 1, 1) == ALLOC_FAILED);
}

static void about(void)
{
	size_t version = lt.GetVersion(), capacity = 0;
	int major = 0, minor = 0, patch = 0;

	/* Before CUDA 13 the number's first part was one of a thousand. */
	CHECK(!lt.GetProperty(0, &major) && !lt.GetProperty(1, &minor) && !lt.GetProperty(2, &patch));
	CHECK(version == (size_t)(major * 10000 + minor * 100 + patch) && major >= 11 && major <= 13);
	CHECK(lt.GetProperty(3, &major) == INVALID && lt.GetProperty(0, NULL) == INVALID);
	CHECK(lt.GetCudartVersion() / 1000 == (size_t)major);
	CHECK(!strcmp(lt.GetStatusName(15), "CUBLAS_STATUS_NOT_SUPPORTED") && *lt.GetStatusString(7));
	CHECK(!lt.HeuristicsCacheGetCapacity(&capacity) && capacity == 8192);
	CHECK(!lt.HeuristicsCacheSetCapacity(0) && !lt.HeuristicsCacheGetCapacity(&capacity) && !capacity);
	CHECK(!lt.HeuristicsCacheSetCapacity(8192));
}

void test_lt_descriptors(void)
{
	int64_t compute = 0;
	void *object;
	size_t size;

	CHECK(lt.Create(NULL) == INVALID);
	CHECK(lt.MatmulDescCreate(NULL, 68, 0) == INVALID);
	CHECK(!lt.MatmulDescCreate(&object, 68, 0));
	CHECK(!lt.MatmulDescGetAttribute(object, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, 4, &size) &&
	      compute == 68);
	ATTRIBUTES(object, MatmulDesc, desc_attributes);
	CHECK(!lt.MatmulDescDestroy(object));
	CHECK(!lt.MatrixLayoutCreate(&object, 0, 11, 12, 13));
	ATTRIBUTES(object, MatrixLayout, layout_attributes);
	CHECK(!lt.MatrixLayoutDestroy(object));
	CHECK(!lt.MatmulPreferenceCreate(&object));
	ATTRIBUTES(object, MatmulPreference, preference_attributes);
	CHECK(!lt.MatmulPreferenceDestroy(object));
	CHECK(!lt.MatrixTransformDescCreate(&object, 0));
	ATTRIBUTES(object, MatrixTransformDesc, transform_attributes);
	CHECK(!lt.MatrixTransformDescDestroy(object));
	in_place();
	about();
}

/* ---- algorithms ---- */

/* One that is made by its number is good for the product; one that is kept as bytes is, too. */
static void by_number(void *desc, void *layout, int id)
{
	cublasLtMatmulHeuristicResult_t result;
	cublasLtMatmulAlgo_t algo, kept;
	int32_t there = -1, splits = 1;
	uint32_t mask = 0;
	size_t size = 0;
	int status;

	CHECK(!lt.MatmulAlgoInit(lt_handle, 68, 0, 0, 0, 0, 0, id, &algo));
	CHECK(!lt.MatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_ID, &there, 4, &size) && size == 4);
	CHECK(there == id);
	CHECK(!lt.MatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, 4));
	CHECK(lt.MatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits, 2) == INVALID);
	CHECK(!lt.MatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_EPILOGUE_MASK, &mask, 4, &size) && size == 4);
	CHECK(!lt.MatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, NULL, 0, &size) &&
	      size == 8);
	CHECK(lt.MatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_EPILOGUE_MASK, &mask, 2, &size) == INVALID);
	memcpy(&kept, &algo, sizeof(kept));
	status = lt.MatmulAlgoCheck(lt_handle, desc, layout, layout, layout, layout, &kept, &result);
	CHECK(!status || lt_may_lack());
	CHECK(status || !result.state);
}

void test_lt_algorithms(void)
{
	cublasLtMatmulHeuristicResult_t found[8], again[8];
	int ids[64], given = 0, more = 0;
	void *desc, *layout, *wrong, *preference;

	CHECK(!lt.MatmulAlgoGetIds(lt_handle, 68, 0, 0, 0, 0, 0, 64, ids, &given) && given >= 1);
	CHECK(lt.MatmulAlgoGetIds(lt_handle, 68, 0, 0, 0, 0, 0, 0, ids, &given) == INVALID);
	CHECK(!lt.MatmulDescCreate(&desc, 68, 0) && !lt.MatrixLayoutCreate(&layout, 0, 64, 64, 64));
	CHECK(!lt.MatrixLayoutCreate(&wrong, 0, 63, 64, 64) && !lt.MatmulPreferenceCreate(&preference));
	by_number(desc, layout, ids[0]);
	CHECK(!lt.MatmulAlgoGetHeuristic(lt_handle, desc, layout, layout, layout, layout, preference, 8, found,
					 &given));
	CHECK(given >= 1 && given <= 8 && !found[0].state && !found[0].workspaceSize);
	CHECK(!lt.MatmulAlgoGetHeuristic(lt_handle, desc, layout, layout, layout, layout, preference, 8, again, &more));
	CHECK(more == given && !memcmp(&found[0].algo, &again[0].algo, sizeof(found[0].algo)));
	CHECK(!lt.MatmulAlgoCheck(lt_handle, desc, layout, layout, layout, layout, &found[0].algo, &again[0]));
	CHECK(lt.MatmulAlgoGetHeuristic(lt_handle, desc, layout, layout, layout, layout, preference, 0, found,
					&given) == INVALID);
	CHECK(lt.MatmulAlgoGetHeuristic(lt_handle, desc, layout, layout, wrong, wrong, preference, 1, found, &given));
	CHECK(!lt.MatmulDescDestroy(desc) && !lt.MatrixLayoutDestroy(layout) && !lt.MatrixLayoutDestroy(wrong) &&
	      !lt.MatmulPreferenceDestroy(preference));
}
