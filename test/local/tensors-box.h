/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that test/local/tensors copies boxes of, and where the elements of a box are. */
#ifndef TEST_LOCAL_TENSORS_BOX_H
#define TEST_LOCAL_TENSORS_BOX_H

#include "api.h"

enum { TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_INT32, TYPE_UINT64, TYPE_INT64, TYPE_FLOAT16, TYPE_FLOAT32 };
enum { TYPE_FLOAT32_FTZ = 10, TYPE_TFLOAT32, TYPE_TFLOAT32_FTZ };

/* The arguments of a map, and the size of an element. */
struct tensor {
	int type, swizzle, fill;
	cuuint32_t rank, size;
	cuuint64_t dim[5], strides[4];
	cuuint32_t box[5], steps[5];
	/* for im2col, where it is not 0: pixels in a box, and how far they may be before and behind the image */
	cuuint32_t pixels;
	int lower[3], upper[3];
};

static CUtensorMap map;
static unsigned int offsets; /* of pixels that are copied from base pixels, 8 bits each */

static CUresult encode(const struct tensor *t, CUdeviceptr address)
{
	if (t->pixels)
		return cuTensorMapEncodeIm2col(&map, t->type, t->rank, (void *)(uintptr_t)address, t->dim, t->strides,
					       t->lower, t->upper, t->box[0], t->pixels, t->steps, 0, t->swizzle, 0,
					       t->fill);
	return cuTensorMapEncodeTiled(&map, t->type, t->rank, (void *)(uintptr_t)address, t->dim, t->strides, t->box,
				      t->steps, 0, t->swizzle, 0, t->fill);
}

/* Rows end where 16 bytes do. */
static struct tensor usual(int type, cuuint32_t size, cuuint32_t rank, const cuuint64_t *dim, const cuuint32_t *box)
{
	struct tensor t = {.type = type, .size = size, .rank = rank};
	cuuint64_t stride = (dim[0] * size + 15) & ~15ull;

	for (unsigned int d = 0; d < rank; d++) {
		t.dim[d] = dim[d];
		t.box[d] = box[d];
		t.steps[d] = 1;
		if (!d)
			continue;
		t.strides[d - 1] = stride;
		stride *= dim[d];
	}
	return t;
}

/* The number of elements of a dimension that go to shared memory. */
static cuuint32_t count(const struct tensor *t, unsigned int d)
{
	return d ? (t->box[d] + t->steps[d] - 1) / t->steps[d] : t->box[d];
}

static unsigned int box_elements(const struct tensor *t)
{
	unsigned int n = 1;

	if (t->pixels)
		return t->box[0] * t->pixels;
	for (unsigned int d = 0; d < t->rank; d++)
		n *= count(t, d);
	return n;
}

/* Element n of a box of images: each pixel's channels, from one base pixel to the next, row by row. */
static void find_pixel(const struct tensor *t, const int *at, unsigned int n, int64_t *x)
{
	for (unsigned int d = 0; d < t->rank; d++)
		x[d] = at[d];
	x[0] += n % t->box[0];
	for (n /= t->box[0]; n; n--)
		for (unsigned int d = 1; d < t->rank; d++) {
			x[d] += t->steps[d];
			if (d == t->rank - 1 || x[d] <= (int64_t)t->dim[d] - 1 + t->upper[d - 1])
				break;
			x[d] = t->lower[d - 1];
		}
	for (unsigned int d = 1; d + 1 < t->rank; d++)
		x[d] += offsets >> (d - 1) * 8 & 255;
}

static void find_element(const struct tensor *t, const int *at, unsigned int n, int64_t *x)
{
	for (unsigned int d = 0; d < t->rank; d++) {
		x[d] = at[d] + (int64_t)(n % count(t, d)) * (d ? t->steps[d] : 1);
		n /= count(t, d);
	}
}

/* The offset of element n of the box at `at` in the tensor, in bytes, or -1. */
static int64_t place(const struct tensor *t, const int *at, unsigned int n)
{
	int64_t offset = 0, x[5];

	(t->pixels ? find_pixel : find_element)(t, at, n, x);
	for (unsigned int d = 0; d < t->rank; d++) {
		if (x[d] < 0 || (cuuint64_t)x[d] >= t->dim[d])
			return -1;
		offset += x[d] * (int64_t)(d ? t->strides[d - 1] : t->size);
	}
	return offset;
}

/* Where byte `at` of the box is in shared memory: of 8 chunks of 16 bytes in a line 2, 4 or 8 change places, where rows
 * begin as well. */
static unsigned int swizzled(const struct tensor *t, unsigned int at)
{
	unsigned int group = 1u << t->swizzle, row = t->box[0] * t->size, pitch = t->swizzle ? group * 16 : row;
	unsigned int line, chunk;

	at = at / row * pitch + at % row;
	line = at / 128;
	chunk = at / 16 % 8;
	return line * 128 + (chunk ^ line % group) * 16 + at % 16;
}

/* Base pixels begin so far before an image, and end where a filter of 3 by 3 by 3 does. */
static struct tensor bordered(cuuint32_t rank, int border, cuuint32_t step)
{
	static const cuuint64_t dims[][5] = {{32, 19, 4}, {32, 9, 7, 3}, {32, 6, 5, 4, 2}};
	struct tensor t = usual(TYPE_FLOAT16, 2, rank, dims[rank - 3], (const cuuint32_t[]){16, 1, 1, 1, 1});

	t.pixels = 50;
	t.swizzle = (int)step % 2;
	for (unsigned int d = 0; d + 2 < rank; d++) {
		t.lower[d] = -border;
		t.upper[d] = border - 2;
		t.steps[d + 1] = step;
	}
	return t;
}

#endif
