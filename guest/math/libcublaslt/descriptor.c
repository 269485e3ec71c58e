/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: attributes are set and given back as they are; what they mean together is looked at when they are used.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lt.h"

#define COUNT(attributes) (sizeof(attributes) / sizeof((attributes)[0]))

static const struct lt_attribute *find(size_t room, const struct lt_attribute *attributes, size_t count, int number)
{
	for (size_t i = 0; i < count; i++)
		if (attributes[i].number == number)
			return (size_t)attributes[i].offset + attributes[i].size <= room ? &attributes[i] : NULL;
	return NULL;
}

int lt_set(void *object, size_t room, const struct lt_attribute *attributes, size_t count, int number, const void *from,
	   size_t size)
{
	const struct lt_attribute *a = object ? find(room, attributes, count, number) : NULL;

	if (!a || !from || size != a->size)
		return BLAS_INVALID_VALUE;
	memcpy((char *)object + a->offset, from, size);
	return BLAS_SUCCESS;
}

int lt_get(const void *object, size_t room, const struct lt_attribute *attributes, size_t count, int number, void *to,
	   size_t size, size_t *written)
{
	const struct lt_attribute *a = object ? find(room, attributes, count, number) : NULL;

	if (!a || (size ? !to || size != a->size : !written))
		return BLAS_INVALID_VALUE;
	if (size)
		memcpy(to, (const char *)object + a->offset, size);
	if (written)
		*written = a->size;
	return BLAS_SUCCESS;
}

#define ATTRIBUTE(number, type, member, standard) {number, offsetof(OBJECT, member), sizeof(type)},
#define STANDARD(number, type, member, standard) .member = (standard),
#define IS_OF_ITS_TYPE(number, type, member, standard)                                                                 \
	_Static_assert(sizeof(((OBJECT *)0)->member) == sizeof(type), "an attribute is as long as its member");

/* ---- products ---- */

#define OLDEST_ROOM 88 /* CUDA 11.0's */

#define OBJECT lt_desc
static const struct lt_attribute desc_attributes[] = {VCUDA_MATMUL_ATTRIBUTES(ATTRIBUTE)};
static const lt_desc desc_standard = {VCUDA_MATMUL_ATTRIBUTES(STANDARD)};
VCUDA_MATMUL_ATTRIBUTES(IS_OF_ITS_TYPE)
#undef OBJECT
_Static_assert(sizeof(lt_desc) == 184 && offsetof(lt_desc, scale_a) == OLDEST_ROOM,
	       "what older programs have room for");

BLAS_API int cublasLtMatmulDescInit_internal(lt_desc *desc, size_t size, int compute, int scale)
{
	lt_desc made = desc_standard;

	if (!desc)
		return BLAS_INVALID_VALUE;
	if (size < OLDEST_ROOM)
		return BLAS_ALLOC_FAILED;
	made.compute = compute;
	made.scale = scale;
	made.room = (uint16_t)(size < sizeof(made) ? size : sizeof(made));
	memcpy(desc, &made, made.room);
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtMatmulDescCreate(lt_desc **desc, int compute, int scale)
{
	if (!desc)
		return BLAS_INVALID_VALUE;
	*desc = calloc(1, sizeof(cublasLtMatmulDescOpaque_t));
	return *desc ? cublasLtMatmulDescInit_internal(*desc, sizeof(cublasLtMatmulDescOpaque_t), compute, scale)
		     : BLAS_ALLOC_FAILED;
}

BLAS_API int cublasLtMatmulDescDestroy(lt_desc *desc)
{
	free(desc);
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtMatmulDescSetAttribute(lt_desc *desc, int number, const void *from, size_t size)
{
	return lt_set(desc, desc ? desc->room : 0, desc_attributes, COUNT(desc_attributes), number, from, size);
}

BLAS_API int cublasLtMatmulDescGetAttribute(const lt_desc *desc, int number, void *to, size_t size, size_t *written)
{
	return lt_get(desc, desc ? desc->room : 0, desc_attributes, COUNT(desc_attributes), number, to, size, written);
}

int lt_describe(vcuda_matmul *m, const lt_desc *desc, const lt_layout *a, const lt_layout *b, const lt_layout *c,
		const lt_layout *d)
{
	if (!desc || !a || !b || !c || !d)
		return BLAS_INVALID_VALUE;
	memset(m, 0, sizeof(*m));
	m->desc = desc_standard;
	memcpy(&m->desc, desc, desc->room < sizeof(*desc) ? desc->room : sizeof(*desc));
	m->desc.room = 0;
	m->a = *a;
	m->b = *b;
	m->c = *c;
	m->d = *d;
	return BLAS_SUCCESS;
}

/* ---- the others ---- */

/* OPAQUE: the bytes that programs have room for. */
#define FUNCTIONS(Name, opaque, attributes)                                                                            \
	BLAS_API int cublasLt##Name##Destroy(OBJECT *object)                                                           \
	{                                                                                                              \
		free(object);                                                                                          \
		return BLAS_SUCCESS;                                                                                   \
	}                                                                                                              \
	BLAS_API int cublasLt##Name##SetAttribute(OBJECT *object, int number, const void *from, size_t size)           \
	{                                                                                                              \
		return lt_set(object, sizeof(*object), attributes, COUNT(attributes), number, from, size);             \
	}                                                                                                              \
	BLAS_API int cublasLt##Name##GetAttribute(const OBJECT *object, int number, void *to, size_t size,             \
						  size_t *written)                                                     \
	{                                                                                                              \
		return lt_get(object, sizeof(*object), attributes, COUNT(attributes), number, to, size, written);      \
	}                                                                                                              \
	_Static_assert(sizeof(OBJECT) <= sizeof(opaque), "it fits");

#define OBJECT lt_layout
static const struct lt_attribute layout_attributes[] = {VCUDA_MATMUL_LAYOUT_ATTRIBUTES(ATTRIBUTE)};
static const lt_layout layout_standard = {VCUDA_MATMUL_LAYOUT_ATTRIBUTES(STANDARD)};
VCUDA_MATMUL_LAYOUT_ATTRIBUTES(IS_OF_ITS_TYPE)
FUNCTIONS(MatrixLayout, cublasLtMatrixLayoutOpaque_t, layout_attributes)
#undef OBJECT

BLAS_API int cublasLtMatrixLayoutInit_internal(lt_layout *layout, size_t size, uint32_t type, uint64_t rows,
					       uint64_t columns, int64_t ld)
{
	if (!layout)
		return BLAS_INVALID_VALUE;
	if (size < sizeof(cublasLtMatrixLayoutOpaque_t))
		return BLAS_ALLOC_FAILED;
	*layout = layout_standard;
	layout->type = type;
	layout->rows = rows;
	layout->columns = columns;
	layout->ld = ld;
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtMatrixLayoutCreate(lt_layout **layout, uint32_t type, uint64_t rows, uint64_t columns, int64_t ld)
{
	if (!layout)
		return BLAS_INVALID_VALUE;
	*layout = calloc(1, sizeof(cublasLtMatrixLayoutOpaque_t));
	return *layout ? cublasLtMatrixLayoutInit_internal(*layout, sizeof(cublasLtMatrixLayoutOpaque_t), type, rows,
							   columns, ld)
		       : BLAS_ALLOC_FAILED;
}

#define OBJECT lt_preference
static const struct lt_attribute preference_attributes[] = {VCUDA_MATMUL_PREFERENCE_ATTRIBUTES(ATTRIBUTE)};
static const lt_preference preference_standard = {VCUDA_MATMUL_PREFERENCE_ATTRIBUTES(STANDARD)};
VCUDA_MATMUL_PREFERENCE_ATTRIBUTES(IS_OF_ITS_TYPE)
_Static_assert(sizeof(OBJECT) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "it fits");
#undef OBJECT

/* The larger structure of CUDA 11's library. Its further members narrow the choice there; here they are only kept. */
struct old_preference {
	lt_preference now;
	uint32_t math_modes, gaussian_modes, pointer_modes, epilogues;
	int32_t processors;
};

enum {
	CUBLASLT_MATMUL_PREF_MATH_MODE_MASK = 2,
	CUBLASLT_MATMUL_PREF_GAUSSIAN_MODE_MASK = 4,
	CUBLASLT_MATMUL_PREF_POINTER_MODE_MASK = 10,
	CUBLASLT_MATMUL_PREF_EPILOGUE_MASK = 11,
	CUBLASLT_MATMUL_PREF_SM_COUNT_TARGET = 13,
};

#define OLD_PREFERENCE_ATTRIBUTES(X)                                                                                   \
	X(CUBLASLT_MATMUL_PREF_MATH_MODE_MASK, uint32_t, math_modes, UINT32_MAX)                                       \
	X(CUBLASLT_MATMUL_PREF_GAUSSIAN_MODE_MASK, uint32_t, gaussian_modes, UINT32_MAX)                               \
	X(CUBLASLT_MATMUL_PREF_POINTER_MODE_MASK, uint32_t, pointer_modes, 3)                                          \
	X(CUBLASLT_MATMUL_PREF_EPILOGUE_MASK, uint32_t, epilogues, CUBLASLT_EPILOGUE_DEFAULT)                          \
	X(CUBLASLT_MATMUL_PREF_SM_COUNT_TARGET, int32_t, processors, 0)

#define OLD_ROOM 80

#define OBJECT struct old_preference
static const struct lt_attribute old_preference_attributes[] = {OLD_PREFERENCE_ATTRIBUTES(ATTRIBUTE)};
OLD_PREFERENCE_ATTRIBUTES(IS_OF_ITS_TYPE)
_Static_assert(sizeof(OBJECT) <= OLD_ROOM, "it fits");
#undef OBJECT

static bool is_old(int number)
{
	return cublasLt_version < 120000 &&
	       find(OLD_ROOM, old_preference_attributes, COUNT(old_preference_attributes), number);
}

static size_t preference_room(void)
{
	return cublasLt_version < 120000 ? OLD_ROOM : sizeof(cublasLtMatmulPreferenceOpaque_t);
}

BLAS_API int cublasLtMatmulPreferenceDestroy(lt_preference *preference)
{
	free(preference);
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtMatmulPreferenceSetAttribute(lt_preference *preference, int number, const void *from, size_t size)
{
	if (is_old(number))
		return lt_set(preference, OLD_ROOM, old_preference_attributes, COUNT(old_preference_attributes), number,
			      from, size);
	return lt_set(preference, sizeof(*preference), preference_attributes, COUNT(preference_attributes), number,
		      from, size);
}

BLAS_API int cublasLtMatmulPreferenceGetAttribute(const lt_preference *preference, int number, void *to, size_t size,
						  size_t *written)
{
	if (is_old(number))
		return lt_get(preference, OLD_ROOM, old_preference_attributes, COUNT(old_preference_attributes), number,
			      to, size, written);
	return lt_get(preference, sizeof(*preference), preference_attributes, COUNT(preference_attributes), number, to,
		      size, written);
}

BLAS_API int cublasLtMatmulPreferenceInit_internal(lt_preference *preference, size_t size)
{
	if (!preference)
		return BLAS_INVALID_VALUE;
	if (size < preference_room())
		return BLAS_ALLOC_FAILED;
	*preference = preference_standard;
	if (cublasLt_version < 120000)
		*(struct old_preference *)preference =
			(struct old_preference){.now = preference_standard, OLD_PREFERENCE_ATTRIBUTES(STANDARD)};
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtMatmulPreferenceCreate(lt_preference **preference)
{
	if (!preference)
		return BLAS_INVALID_VALUE;
	*preference = calloc(1, preference_room());
	return *preference ? cublasLtMatmulPreferenceInit_internal(*preference, preference_room()) : BLAS_ALLOC_FAILED;
}

#define OBJECT lt_transform
static const struct lt_attribute transform_attributes[] = {VCUDA_TRANSFORM_ATTRIBUTES(ATTRIBUTE)};
static const lt_transform transform_standard = {VCUDA_TRANSFORM_ATTRIBUTES(STANDARD)};
VCUDA_TRANSFORM_ATTRIBUTES(IS_OF_ITS_TYPE)
FUNCTIONS(MatrixTransformDesc, cublasLtMatrixTransformDescOpaque_t, transform_attributes)
#undef OBJECT

BLAS_API int cublasLtMatrixTransformDescInit_internal(lt_transform *desc, size_t size, int scale)
{
	if (!desc)
		return BLAS_INVALID_VALUE;
	if (size < sizeof(cublasLtMatrixTransformDescOpaque_t))
		return BLAS_ALLOC_FAILED;
	*desc = transform_standard;
	desc->scale = scale;
	return BLAS_SUCCESS;
}

BLAS_API int cublasLtMatrixTransformDescCreate(lt_transform **desc, int scale)
{
	if (!desc)
		return BLAS_INVALID_VALUE;
	*desc = calloc(1, sizeof(cublasLtMatrixTransformDescOpaque_t));
	return *desc ? cublasLtMatrixTransformDescInit_internal(*desc, sizeof(cublasLtMatrixTransformDescOpaque_t),
								scale)
		     : BLAS_ALLOC_FAILED;
}
