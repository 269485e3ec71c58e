/* SPDX-License-Identifier: Apache-2.0 */
#include "module/fault.h"

#include <stdio.h>

#include "common/log.h"
#include "device/device.h"
#include "device/memory.h"
#include "module/callee.h"
#include "module/lifted.h"

#define TEXT_BYTES 300

/* Limit for the lines of one process: programs can cause any number of faults. */
#define MOST_WARNINGS 1000
#define MOST_CHECKS 100000

static unsigned int warnings, checks; /* with the lock */

/* Where accesses of this thread have passed, by their pages: a kernel may stray in every lane. */
#define PAGE 4096
#define KNOWN 64

static __thread struct {
	struct softgpu_span span;
	uint64_t version; /* of the table of ranges */
	uint64_t view;    /* softgpu_context_view() */
	bool write;
} known[KNOWN];

CUresult softgpu_fault_result(enum ptx_fault_kind kind)
{
	switch (kind) {
	case PTX_FAULT_ILLEGAL_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_FAULT_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_FAULT_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_FAULT_BAD_TARGET:
		return CUDA_ERROR_INVALID_PC;
	case PTX_FAULT_TENSOR_MAP:
	case PTX_FAULT_TENSOR_BEGIN:
	case PTX_FAULT_TENSOR_NEGATIVE:
	case PTX_FAULT_TENSOR_CORNER:
		return CUDA_ERROR_ILLEGAL_INSTRUCTION;
	case PTX_FAULT_CANCELLED:
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

/* Describes the distance to the nearest allocation, if there is one. */
static void describe_place(const struct ptx_fault *f, char *text, size_t size)
{
	static const char *const places[] = {
		[SOFTGPU_BEHIND] = "behind",
		[SOFTGPU_BEFORE] = "before",
		[SOFTGPU_ACROSS_END] = "across the end of",
		[SOFTGPU_ACROSS_START] = "across the start of",
		[SOFTGPU_INSIDE] = "in",
	};
	struct softgpu_neighbour n;
	char distance[40] = "", device[30] = "";

	*text = 0;
	if (f->own || !softgpu_stray_neighbour(f->address, f->bytes, &n))
		return;
	if (n.where == SOFTGPU_BEHIND || n.where == SOFTGPU_BEFORE)
		snprintf(distance, sizeof(distance), "%llu bytes ", (unsigned long long)n.distance);
	if (softgpu_device()->count > 1)
		snprintf(device, sizeof(device), " on device %d", n.device);
	snprintf(text, size, ", %s%s the allocation of %llu bytes at 0x%llx%s", distance, places[n.where],
		 (unsigned long long)n.size, (unsigned long long)n.start, device);
}

static void describe_access(const struct ptx_fault *f, const char *kind, char *text, size_t size)
{
	char place[150];

	describe_place(f, place, sizeof(place));
	snprintf(text, size, "%s%s of %u bytes at 0x%llx (%s)%s", kind, f->write ? "a store" : "a load", f->bytes,
		 (unsigned long long)f->address, f->space ? f->space : "generic", place);
}

static void describe_tensor_fault(const struct ptx_fault *f, char *text, size_t size)
{
	if (f->kind == PTX_FAULT_TENSOR_BEGIN)
		snprintf(text, size,
			 "a box of a tensor that begins at element %lld of dimension 0, "
			 "which is no multiple of 16 bytes",
			 (long long)f->address);
	else if (f->kind == PTX_FAULT_TENSOR_NEGATIVE)
		snprintf(text, size, "a store to a negative place of a tensor, element %lld of dimension %u",
			 (long long)f->address, f->bytes);
	else if (f->kind == PTX_FAULT_TENSOR_CORNER)
		snprintf(text, size, "a store by a map of images with a corner outside of them (%lld in dimension %u)",
			 (long long)f->address, f->bytes);
	else if (f->bytes == UINT32_MAX)
		snprintf(text, size, "neither a tensor map nor zeroes at 0x%llx", (unsigned long long)f->address);
	else if (f->bytes)
		snprintf(text, size, "no tensor map of %u dimensions at 0x%llx, or one that was changed", f->bytes,
			 (unsigned long long)f->address);
	else
		snprintf(text, size, "a reduction that the type of the tensor map at 0x%llx does not have",
			 (unsigned long long)f->address);
}

static void describe_fault(const struct ptx_fault *f, char *text, size_t size)
{
	const char *kind = f->kind == PTX_FAULT_MISALIGNED ? "misaligned address: " : "illegal address: ";

	switch (f->kind) {
	case PTX_FAULT_ILLEGAL_ADDRESS:
	case PTX_FAULT_MISALIGNED:
		describe_access(f, kind, text, size);
		break;
	case PTX_FAULT_TRAP:
		snprintf(text, size, "trap");
		break;
	case PTX_FAULT_ASSERT:
		snprintf(text, size, "assertion failed");
		break;
	case PTX_FAULT_BARRIER:
		snprintf(text, size, "a barrier that not all threads of the block reach (%u wait at barrier %llu)",
			 f->bytes, (unsigned long long)f->address);
		break;
	case PTX_FAULT_BAD_TARGET:
		snprintf(text, size, "a call through a pointer that is not a function's, or a branch with a bad index");
		break;
	case PTX_FAULT_TENSOR_MAP:
	case PTX_FAULT_TENSOR_BEGIN:
	case PTX_FAULT_TENSOR_NEGATIVE:
	case PTX_FAULT_TENSOR_CORNER:
		describe_tensor_fault(f, text, size);
		break;
	default:
		snprintf(text, size, "ran for longer than %g s, which is the limit",
			 (double)softgpu_device()->time_limit_ns * 1e-9);
	}
}

/* The place in the code, if it is known: by the machine code that the PTX was made of, or by the PTX. */
static void describe_line(const struct CUfunc_st *function, const struct ptx_fault *f, char *text, size_t size)
{
	const struct softgpu_lifted *called = softgpu_callee_of(function->module, f->kernel);
	const struct softgpu_code_map *map = softgpu_lifted_map(called ? called : function->lifted);
	const char *callee;
	uint32_t offset;

	*text = 0;
	if (!f->line)
		return;
	if (!map)
		snprintf(text, size, ", line %u of the PTX", f->line);
	else if (softgpu_code_map_find(map, f->line, &offset, &callee))
		snprintf(text, size, ", offset 0x%x of %s%s%s", offset, callee ? "`" : "the machine code",
			 callee ? callee : "", callee ? "` in the machine code" : "");
}

/* `before`: what the line begins with; `behind`: what it ends with. */
static void write_line(const char *before, const struct CUfunc_st *function, const char *text,
		       const struct ptx_fault *f, const char *behind)
{
	char line[160];

	describe_line(function, f, line, sizeof(line));
	vcuda_log("%skernel %s: %s, block (%u,%u,%u), thread (%u,%u,%u)%s%s", before, function->info->name, text,
		  f->block[0], f->block[1], f->block[2], f->thread[0], f->thread[1], f->thread[2], line, behind);
}

static const char *check_word(void)
{
	return softgpu_device()->bounds == SOFTGPU_BOUNDS_CHECK ? "check: " : "";
}

void softgpu_fault_report(const struct CUfunc_st *function, const struct ptx_fault *f)
{
	char text[TEXT_BYTES];

	describe_fault(f, text, sizeof(text));
	write_line(check_word(), function, text, f, "");
}

static void warn(const struct CUfunc_st *function, const struct ptx_fault *f)
{
	char text[TEXT_BYTES];

	if (warnings++ >= MOST_WARNINGS)
		return;
	describe_access(f, "", text, sizeof(text));
	write_line("warning: ", function, text, f,
		   "; it passes, as on a GPU, and so do others of this kernel (`vcuda run --check` names all)");
}

static void note_check(const struct CUfunc_st *function, const struct ptx_fault *f)
{
	if (checks++ < MOST_CHECKS)
		softgpu_fault_report(function, f);
	else if (checks == MOST_CHECKS + 1)
		vcuda_log("check: there are more than these %u; no more are named", MOST_CHECKS);
}

static bool passes(const struct CUctx_st *context, const struct ptx_fault *f)
{
	struct softgpu_span span;

	if (softgpu_device()->bounds != SOFTGPU_BOUNDS_GRANULES || f->kind != PTX_FAULT_ILLEGAL_ADDRESS || f->own ||
	    !softgpu_stray_is_mapped(context, f->address, f->bytes, f->write, &span))
		return false;
	known[f->address / PAGE % KNOWN].span = span;
	known[f->address / PAGE % KNOWN].version = softgpu_memory_version();
	known[f->address / PAGE % KNOWN].view = softgpu_context_view(context);
	known[f->address / PAGE % KNOWN].write = f->write;
	return true;
}

bool softgpu_fault_is_known(const struct CUfunc_st *function, uint64_t view, uint64_t address, uint64_t bytes,
			    bool write)
{
	unsigned int n = address / PAGE % KNOWN;

	return __atomic_load_n(&function->warned, __ATOMIC_RELAXED) && known[n].version == softgpu_memory_version() &&
	       known[n].view == view && (known[n].write || !write) && address >= known[n].span.start &&
	       address < known[n].span.end && bytes <= known[n].span.end - address;
}

enum ptx_stray softgpu_fault_judge(const struct CUctx_st *context, struct CUfunc_st *function,
				   const struct ptx_fault *f)
{
	enum ptx_stray verdict = PTX_STRAY_FAULTS;

	softgpu_lock();
	if (softgpu_device()->bounds == SOFTGPU_BOUNDS_CHECK) {
		note_check(function, f);
		verdict = PTX_STRAY_IS_DROPPED;
	} else if (passes(context, f)) {
		if (!function->warned)
			warn(function, f);
		__atomic_store_n(&function->warned, true, __ATOMIC_RELAXED);
		verdict = PTX_STRAY_PASSES;
	}
	softgpu_unlock();
	return verdict;
}
