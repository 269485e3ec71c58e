/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that kernels call outside the module: device printf, assert, malloc and free. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ptx-run.h"

#define MAX_TEXT 4096

struct printer {
	struct ptx_context *ctx;
	uint32_t site;
	char text[MAX_TEXT];
	size_t length;
	uint64_t arguments; /* where the next one lies, in device memory */
	uint32_t count;     /* of those taken */
	bool ok;
};

static void put(struct printer *p, const char *text, size_t length)
{
	if (length > MAX_TEXT - p->length)
		length = MAX_TEXT - p->length;
	memcpy(p->text + p->length, text, length);
	p->length += length;
}

/* Arguments lie one after the other, each aligned to its size. */
static uint64_t next_argument(struct printer *p, unsigned bytes)
{
	uint64_t value = 0, at = (p->arguments + bytes - 1) & ~(uint64_t)(bytes - 1);
	size_t length = bytes;

	p->arguments = at + bytes;
	p->count++;
	if (!ptx_check_bytes(p->ctx, at, length)) {
		p->ok = false;
		return 0;
	}
	memcpy(&value, (const void *)(uintptr_t)at, bytes);
	return value;
}

/* One conversion, from its % on; returns its length. Only what is known to be harmless reaches snprintf(). */
static size_t convert(struct printer *p, const char *at)
{
	char spec[40], out[512];
	size_t n = 1, kept = 1, length;
	bool wide = false;
	const char *text;
	uint64_t value;
	double number;
	int written = 0;

	spec[0] = '%';
	while (at[n] && strchr("-+ #0123456789.*", at[n])) {
		if (at[n] == '*' && kept < 16)
			kept += (size_t)snprintf(spec + kept, 12, "%d", (int)next_argument(p, 4) % 400);
		else if (kept < 20)
			spec[kept++] = at[n];
		n++;
	}
	while (at[n] && strchr("hlLqjzt", at[n])) {
		wide |= at[n] != 'h';
		n++;
	}
	if (!at[n] || kept > 24)
		return n;
	if (strchr("diouxXc", at[n])) {
		value = next_argument(p, wide && at[n] != 'c' ? 8 : 4);
		if (at[n] != 'c') {
			spec[kept++] = 'l';
			spec[kept++] = 'l';
		}
		spec[kept] = at[n];
		spec[kept + 1] = 0;
		if (!wide && strchr("di", at[n]))
			value = (uint64_t)(int64_t)(int32_t)value;
		written = at[n] == 'c' ? snprintf(out, sizeof(out), spec, (int)value)
				       : snprintf(out, sizeof(out), spec, (long long)value);
	} else if (strchr("eEfFgGaA", at[n])) {
		value = next_argument(p, 8);
		memcpy(&number, &value, 8);
		spec[kept] = at[n];
		spec[kept + 1] = 0;
		written = snprintf(out, sizeof(out), spec, number);
	} else if (at[n] == 'p') {
		written = snprintf(out, sizeof(out), "0x%llx", (unsigned long long)next_argument(p, 8));
	} else if (at[n] == 's') {
		text = ptx_check_string(p->ctx, next_argument(p, 8), &length);
		if (text)
			put(p, text, length);
		else
			p->ok = false;
	} else {
		put(p, at[n] == '%' ? "%" : at, at[n] == '%' ? 1 : n + 1);
	}
	if (written > 0)
		put(p, out, (size_t)written < sizeof(out) ? (size_t)written : sizeof(out) - 1);
	return n + 1;
}

/* Gives back how many arguments the format took, as CUDA's printf does. */
static uint64_t print_lane(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread)
{
	struct printer p = {.ctx = ctx, .arguments = a[32], .ok = true};
	const char *shared;
	char *text = NULL;
	size_t length;

	if (!a[0])
		return UINT32_MAX;
	/* other threads, and the program, may write to it meanwhile */
	shared = ptx_check_string(ctx, a[0], &length);
	if (shared) {
		text = strndup(shared, length);
		if (!text)
			return UINT32_MAX;
		length = strlen(text);
	}
	for (size_t n = 0; text && n < length && p.ok;) {
		const char *percent = memchr(text + n, '%', length - n);
		size_t plain = percent ? (size_t)(percent - text) - n : length - n;

		put(&p, text + n, plain);
		n += plain;
		if (percent)
			n += convert(&p, percent);
	}
	free(text);
	if (!shared || !p.ok)
		ptx_fault_at(ctx, site, PTX_FAULT_ILLEGAL_ADDRESS, shared ? p.arguments : a[0], thread);
	if (ctx->launch->print)
		ctx->launch->print(ctx->launch->device, p.text, p.length);
	return p.count;
}

/* The most of a checked string that is printed: its end may have been overwritten since. */
static int most(const char *text, size_t length, size_t limit)
{
	return text ? (int)(length < limit ? length : limit) : 1;
}

static uint64_t assert_lane(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread)
{
	size_t n[3];
	const char *what = ptx_check_string(ctx, a[0], &n[0]), *file = ptx_check_string(ctx, a[32], &n[1]);
	const char *function = ptx_check_string(ctx, a[96], &n[2]);
	const uint32_t *d = ctx->binary->blockdim;
	char text[1024];
	int length;

	length = snprintf(text, sizeof(text),
			  "%.*s:%u: %.*s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%.*s` failed.\n",
			  most(file, n[1], 200), file ? file : "?", (unsigned)a[64], most(function, n[2], 200), function ? function : "?", ctx->ctaid[0], ctx->ctaid[1],
			  ctx->ctaid[2], thread % d[0], thread / d[0] % d[1], thread / d[0] / d[1], most(what, n[0], 300), what ? what : "?");
	if (ctx->launch->print)
		ctx->launch->print(ctx->launch->device, text,
				   (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
	return 0;
}

static uint64_t malloc_lane(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread)
{
	(void)site;
	(void)thread;
	return ctx->launch->heap ? ctx->launch->allocate(ctx->launch->heap, a[0]) : 0;
}

static uint64_t free_lane(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread)
{
	if (a[0] && (!ctx->launch->heap || !ctx->launch->release(ctx->launch->heap, a[0])))
		ptx_fault_at(ctx, site, PTX_FAULT_ILLEGAL_ADDRESS, a[0], thread);
	return 0;
}

/* Argument n of a lane is a[32 * n]. */
static const struct {
	uint64_t (*lane)(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread);
	bool fails; /* the kernel ends, once all lanes that are there have had their say */
} externals[PTX_EXTERNAL_COUNT] = {
	[PTX_EXTERNAL_ASSERTFAIL] = {assert_lane, true},
	[PTX_EXTERNAL_FREE] = {free_lane, false},
	[PTX_EXTERNAL_MALLOC] = {malloc_lane, false},
	[PTX_EXTERNAL_VPRINTF] = {print_lane, false},
};

uint64_t ptx_rt_call(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *arguments,
		     uint64_t *result, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);

		result[lane] = externals[site->operation].lane(ctx, site, arguments + lane, thread + lane);
	}
	if (externals[site->operation].fails && mask)
		ptx_fault_at(ctx, site, PTX_FAULT_ASSERT, 0, thread + (unsigned)__builtin_ctz(mask));
	return 0;
}
