/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of boxes of tensors, done at once like the other bulk copies. The map comes from the program's memory. It is
 * copied before it is checked, so that the program cannot change it in between. Its addresses are checked like any
 * other, row by row.
 */
#include <string.h>

#include "runtime/ptx-async.h"
#include "runtime/ptx-tensor-map.h"

#define SHARED_ALIGN 128
#define CHUNK 16
#define MOST_ROW_BYTES (PTX_TENSOR_BOX * 8)

/* One lane's copy. */
struct box {
	struct ptx_context *ctx;
	struct ptx_tensor_map map;
	uint32_t number, thread;
	int64_t corner[PTX_TENSOR_RANK];
	int64_t at[PTX_TENSOR_RANK];     /* coordinates of the present row, or of its base pixel */
	int64_t offset[PTX_TENSOR_RANK]; /* of the pixel that is copied from the base pixel */
	unsigned element;                /* bytes */
	uint64_t row, rows;              /* bytes of a row, and how many there are */
	uint64_t pitch;                  /* from one to the next in shared memory */
	uint64_t shared;                 /* where it is there */
};

/* The part of a row that is in the tensor. */
struct part {
	uint64_t address;
	uint64_t first, count; /* elements */
};

static uint64_t bytes_of(const struct box *b)
{
	return b->row * b->rows;
}

static void read_map(struct box *b, uint64_t address, unsigned rank, bool images)
{
	const struct ptx_site *site = &b->ctx->binary->sites[b->number];
	struct ptx_site report = {.line = site->line};

	if (address % PTX_TENSOR_MAP_ALIGN)
		ptx_fault_bytes(b->ctx, &report, PTX_FAULT_MISALIGNED, address, sizeof(b->map), b->thread);
	if (!ptx_check_bytes(b->ctx, address, sizeof(b->map)))
		ptx_fault_bytes(b->ctx, &report, PTX_FAULT_ILLEGAL_ADDRESS, address, sizeof(b->map), b->thread);
	memcpy(&b->map, (const void *)(uintptr_t)address, sizeof(b->map));
	if (!ptx_tensor_map_sealed(&b->map) || !ptx_tensor_map_valid(&b->map) || b->map.rank != rank ||
	    b->map.images != images)
		ptx_fault_bytes(b->ctx, &report, PTX_FAULT_TENSOR_MAP, address, rank, b->thread);
}

static void refuse_place(const struct box *b, enum ptx_fault_kind kind, unsigned dimension, int64_t at)
{
	ptx_fault_bytes(b->ctx, &b->ctx->binary->sites[b->number], kind, (uint64_t)at, dimension, b->thread);
}

/* coords: see ptx_rt_tensor_load(). An H100 has boxes begin where 16 bytes do, outside of the tensor as well. */
static struct box make_box(struct ptx_context *ctx, uint32_t number, uint64_t map, const uint64_t *coords,
			   uint32_t mode, unsigned lane, uint32_t thread)
{
	struct box b = {.ctx = ctx, .number = number, .thread = thread + lane, .rows = 1};
	unsigned rank = mode & PTX_TENSOR_MODE_RANK;

	read_map(&b, map, rank, mode & PTX_TENSOR_MODE_IMAGES);
	b.element = ptx_tensor_element(b.map.type);
	b.row = (uint64_t)b.map.box[0] * b.element;
	/* an H100 has a narrow row end where chunks no longer change places with it */
	b.pitch = b.map.swizzle ? ptx_tensor_span(b.map.swizzle) : b.row;
	for (unsigned d = 0; d < rank; d++) {
		b.at[d] = b.corner[d] = (int32_t)(coords[d / 2 * PTX_SITE_LANES + lane] >> d % 2 * 32);
		if (d)
			b.rows *= (b.map.box[d] + b.map.steps[d] - 1u) / b.map.steps[d];
		if (mode & PTX_TENSOR_MODE_OFFSETS && d && d + 1 < rank)
			b.offset[d] = (uint16_t)(coords[PTX_TENSOR_OFFSETS * PTX_SITE_LANES + lane] >> (d - 1) * 16);
	}
	if (b.map.images)
		b.rows = b.map.pixels;
	if (b.at[0] * b.element % PTX_TENSOR_ALIGN)
		refuse_place(&b, PTX_FAULT_TENSOR_BEGIN, 0, b.at[0]);
	return b;
}

/* Goes on to the next row: an element's distance further in the first dimension that has not come to its end. */
static void go_on(struct box *b)
{
	for (unsigned d = 1; d < b->map.rank; d++) {
		int64_t begin = b->corner[d], end = begin + b->map.box[d] - 1;

		if (b->map.images && d + 1u < b->map.rank) {
			begin = b->map.lower[d - 1];
			end = (int64_t)b->map.last[d] + b->map.upper[d - 1];
		} else if (b->map.images) {
			end = INT64_MAX;
		}
		b->at[d] += b->map.steps[d];
		if (b->at[d] <= end)
			return;
		b->at[d] = begin;
	}
}

/* All of the box in shared memory, and the permutation of its chunks. */
static void find_shared(struct box *b, uint64_t address, bool write)
{
	ptx_shared_bytes(b->ctx, b->number, address, b->pitch * b->rows, SHARED_ALIGN, write, b->thread);
	b->shared = address;
}

/* The place of this 16-byte chunk in shared memory: the pattern follows the addresses. */
static uint8_t *chunk(const struct box *b, uint64_t offset)
{
	uint64_t address = b->shared + offset, mask = ptx_tensor_span(b->map.swizzle) / CHUNK - 1;

	return b->ctx->shared + (address ^ (address >> 7 & mask) * CHUNK);
}

static void put_row(const struct box *b, uint64_t row, const uint8_t *from)
{
	for (uint64_t n = 0; n < b->row; n += CHUNK)
		memcpy(chunk(b, row * b->pitch + n), from + n, CHUNK);
}

static void get_row(const struct box *b, uint64_t row, uint8_t *to)
{
	for (uint64_t n = 0; n < b->row; n += CHUNK)
		memcpy(to + n, chunk(b, row * b->pitch + n), CHUNK);
}

/* The place of the current row in the tensor. An overflowing sum gives an address that no kernel may access. */
static struct part find_part(const struct box *b)
{
	unsigned __int128 address = b->map.address;
	int64_t first = b->corner[0] < 0 ? -b->corner[0] : 0, last = (int64_t)b->map.last[0] - b->corner[0];
	struct part part = {0};

	for (unsigned d = 1; d < b->map.rank; d++) {
		int64_t at = b->at[d] + b->offset[d];

		if (at < 0 || at > b->map.last[d])
			return part;
		address += (unsigned __int128)at * b->map.strides[d - 1];
	}
	if (last >= b->map.box[0])
		last = b->map.box[0] - 1;
	if (last < first)
		return part;
	address += (uint64_t)(b->corner[0] + first) * b->element;
	part.address = address >> 64 ? UINT64_MAX - MOST_ROW_BYTES : (uint64_t)address;
	part.first = (uint64_t)first;
	part.count = (uint64_t)(last - first + 1);
	return part;
}

static uint8_t *reach(const struct box *b, const struct part *part)
{
	return ptx_check_span(b->ctx, b->number, part->address, part->count * b->element, 1, b->thread);
}

/* Rounds to nearest even. All NaNs become the same. */
static uint32_t as_tf32(uint32_t bits)
{
	if ((bits & 0x7fffffff) > 0x7f800000)
		return 0x7fffe000;
	return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
}

/* An H100 flushes nothing when it loads, whatever the type is called. */
static void convert(const struct box *b, uint8_t *row, uint64_t bytes)
{
	if (b->map.type != PTX_TENSOR_TF32 && b->map.type != PTX_TENSOR_TF32_FTZ)
		return;
	for (uint64_t n = 0; n < bytes; n += 4) {
		uint32_t bits;

		memcpy(&bits, row + n, 4);
		bits = as_tf32(bits);
		memcpy(row + n, &bits, 4);
	}
}

static void load_row(const struct box *b, uint64_t n)
{
	uint16_t fill = b->map.fills_nan ? PTX_TENSOR_NAN_16 : 0;
	struct part part = find_part(b);
	uint8_t row[MOST_ROW_BYTES];

	if (part.count < b->map.box[0])
		for (uint64_t at = 0; at < b->row; at += sizeof(fill))
			memcpy(row + at, &fill, sizeof(fill));
	if (part.count) {
		memcpy(row + part.first * b->element, reach(b, &part), part.count * b->element);
		convert(b, row + part.first * b->element, part.count * b->element);
	}
	put_row(b, n, row);
}

void ptx_rt_tensor_load(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *to,
			const uint64_t *maps, const uint64_t *coords, const uint64_t *barriers, uint32_t mode,
			uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		struct box b = make_box(ctx, number, maps[lane], coords, mode, lane, thread);

		find_shared(&b, to[lane], true);
		for (uint64_t n = 0; n < b.rows; n++, go_on(&b))
			load_row(&b, n);
		ptx_mbarrier_complete(ctx, number, barriers[lane], bytes_of(&b), thread + lane);
	}
}

/*
 * Elements behind a tensor's end are left out. An H100 stores nothing before its beginning, and nothing by a map of
 * images whose base pixels may be outside of the image.
 */
static void check_target(const struct box *b)
{
	for (unsigned d = 0; d < b->map.rank; d++)
		if (b->corner[d] < 0)
			refuse_place(b, PTX_FAULT_TENSOR_NEGATIVE, d, b->corner[d]);
	for (unsigned d = 0; b->map.images && d + 2u < b->map.rank; d++)
		if (b->map.lower[d] < 0 || b->map.upper[d] > 0)
			refuse_place(b, PTX_FAULT_TENSOR_CORNER, d + 1,
				     b->map.lower[d] < 0 ? b->map.lower[d] : b->map.upper[d]);
}

static void store_row(const struct box *b, uint64_t n)
{
	struct part part = find_part(b);
	uint8_t row[MOST_ROW_BYTES];

	if (!part.count)
		return;
	get_row(b, n, row);
	memcpy(reach(b, &part), row + part.first * b->element, part.count * b->element);
}

void ptx_rt_tensor_store(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *from,
			 const uint64_t *maps, const uint64_t *coords, uint32_t mode, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		struct box b = make_box(ctx, number, maps[lane], coords, mode, lane, thread);

		check_target(&b);
		find_shared(&b, from[lane], false);
		for (uint64_t n = 0; n < b.rows; n++, go_on(&b))
			store_row(&b, n);
	}
}

/* The site of a reduction of elements of the tensor's type; PTX_NONE: there is none, as on an H100. */
static struct ptx_site reduction_of(const struct box *b)
{
	static const uint8_t types[PTX_TENSOR_TYPE_COUNT] = {
		[PTX_TENSOR_U32] = PTX_U32,  [PTX_TENSOR_S32] = PTX_S32,      [PTX_TENSOR_U64] = PTX_U64,
		[PTX_TENSOR_S64] = PTX_S64,  [PTX_TENSOR_F16] = PTX_F16,      [PTX_TENSOR_BF16] = PTX_BF16,
		[PTX_TENSOR_F32] = PTX_F32,  [PTX_TENSOR_F32_FTZ] = PTX_F32,  [PTX_TENSOR_F64] = PTX_F64,
		[PTX_TENSOR_TF32] = PTX_F32, [PTX_TENSOR_TF32_FTZ] = PTX_F32,
	};
	struct ptx_site site = b->ctx->binary->sites[b->number];
	unsigned type = types[b->map.type];
	char cls = ptx_types[type].cls;
	bool is_integer = cls == 'u' || cls == 's', is_half = ptx_types[type].bits == 16;

	switch (site.operation) {
	case PTX_MOD_ADD:
		type = type == PTX_S64 ? PTX_NONE : type;
		break;
	case PTX_MOD_MIN:
	case PTX_MOD_MAX:
		type = is_integer || is_half ? type : PTX_NONE;
		break;
	case PTX_MOD_INC:
	case PTX_MOD_DEC:
		type = type == PTX_U32 ? type : PTX_NONE;
		break;
	default:
		type = is_integer && type != PTX_S64 ? type : PTX_NONE;
	}
	site.type = (uint8_t)type;
	site.size = (uint8_t)b->element;
	site.count = 1;
	return site;
}

static void reduce_row(const struct box *b, const struct ptx_site *site, uint64_t n)
{
	bool ftz = b->map.type == PTX_TENSOR_F32_FTZ || b->map.type == PTX_TENSOR_TF32_FTZ;
	struct part part = find_part(b);
	uint8_t row[MOST_ROW_BYTES], *target;

	if (!part.count)
		return;
	get_row(b, n, row);
	target = reach(b, &part);
	for (uint64_t k = 0; k < part.count; k++) {
		uint64_t operand = 0;

		memcpy(&operand, row + (part.first + k) * b->element, b->element);
		ptx_atom_apply(site, target + k * b->element, ftz, operand);
	}
}

void ptx_rt_tensor_reduce(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *from,
			  const uint64_t *maps, const uint64_t *coords, uint32_t mode, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		struct box b = make_box(ctx, number, maps[lane], coords, mode, lane, thread);
		struct ptx_site site = reduction_of(&b);

		if (!site.type)
			ptx_fault_bytes(ctx, &site, PTX_FAULT_TENSOR_MAP, maps[lane], 0, thread + lane);
		check_target(&b);
		find_shared(&b, from[lane], false);
		for (uint64_t n = 0; n < b.rows; n++, go_on(&b))
			reduce_row(&b, &site, n);
	}
}

void ptx_rt_tensor_prefetch(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *maps,
			    const uint64_t *coords, uint32_t mode, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);

		make_box(ctx, number, maps[lane], coords, mode, lane, thread);
	}
}

void ptx_rt_tensor_replace(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *maps,
			   const uint64_t *values, uint32_t field, uint32_t which, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		struct ptx_tensor_map map;
		uint8_t *at = ptx_check_span(ctx, number, maps[lane], sizeof(map), PTX_TENSOR_MAP_ALIGN, thread + lane);

		memcpy(&map, at, sizeof(map));
		if (!ptx_tensor_map_sealed(&map) && !ptx_tensor_map_empty(&map))
			ptx_fault_bytes(ctx, site, PTX_FAULT_TENSOR_MAP, maps[lane], UINT32_MAX, thread + lane);
		ptx_tensor_map_replace(&map, (enum ptx_tensor_field)field, which, values[lane]);
		ptx_tensor_map_seal(&map);
		memcpy(at, &map, sizeof(map));
	}
}

void ptx_rt_tensor_publish(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *to,
			   const uint64_t *from, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		const size_t bytes = sizeof(struct ptx_tensor_map);
		const uint8_t *source =
			ptx_shared_bytes(ctx, number, from[lane], bytes, PTX_TENSOR_MAP_ALIGN, false, thread + lane);

		memcpy(ptx_check_span(ctx, number, to[lane], bytes, PTX_TENSOR_MAP_ALIGN, thread + lane), source,
		       bytes);
	}
}
