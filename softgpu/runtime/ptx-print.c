/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that kernels call outside the module: device printf, assert, malloc and free. */
#include <stdio.h>
#include <string.h>

#include "runtime/ptx-callee.h"
#include "runtime/ptx-run.h"

/*
 * The output of one call is written in pieces of a fixed size. Measured on an H200: a text of 200,000 bytes and a
 * precision of 99,999 are printed whole, and an unknown conversion is printed as it is.
 */
#define PIECE 4096
#define MOST_TEXT (1u << 20)
#define MOST_FORMAT (64u << 10)
/* The longest conversion specification, with its end. */
#define MOST_SPEC 48
/* No double has more digits behind its point. Further digits are zeroes. */
#define MOST_DIGITS 1100

struct printer {
	struct ptx_context *ctx;
	char piece[PIECE];
	size_t length, total; /* of the piece, and of all of the call */
	uint64_t arguments;   /* the address of the next one, in device memory */
	uint32_t count;       /* number of arguments taken */
	bool ok;
};

/* A number printed without its width; the padding between its parts is added later. */
struct number {
	char text[MOST_DIGITS + 400];
	size_t length;
	size_t prefix;  /* bytes: sign, 0x */
	size_t digits;  /* bytes up to where zeroes beyond MOST_DIGITS belong */
	size_t zeroes;  /* number of these zeroes */
	bool zero_fill; /* the flag 0 applies to this conversion */
};

struct conversion {
	bool left, plus, space, alternate, zero;
	size_t width, precision;
	bool has_precision;
	unsigned bytes; /* 2, 4 or 8: of an integer */
	char type;
	size_t length; /* of its text, with the % */
};

static void flush(struct printer *p)
{
	if (p->length && p->ctx->launch->print)
		p->ctx->launch->print(p->ctx->launch->device, p->piece, p->length);
	p->length = 0;
}

/* The part of `length` bytes that fits into the current piece, and into the call's limit. */
static size_t room(struct printer *p, size_t length)
{
	if (p->length == PIECE)
		flush(p);
	if (length > MOST_TEXT - p->total)
		length = MOST_TEXT - p->total;
	return length < PIECE - p->length ? length : PIECE - p->length;
}

static void put(struct printer *p, const char *text, size_t length)
{
	for (size_t n; (n = room(p, length)); text += n, length -= n) {
		memcpy(p->piece + p->length, text, n);
		p->length += n;
		p->total += n;
	}
}

static void repeat(struct printer *p, char what, size_t count)
{
	for (size_t n; (n = room(p, count)); count -= n) {
		memset(p->piece + p->length, what, n);
		p->length += n;
		p->total += n;
	}
}

/* Arguments lie one after the other, each aligned to its size. */
static uint64_t next_argument(struct printer *p, unsigned bytes)
{
	uint64_t value = 0, at = (p->arguments + bytes - 1) & ~(uint64_t)(bytes - 1);

	p->arguments = at + bytes;
	p->count++;
	if (!ptx_check_bytes(p->ctx, at, bytes)) {
		p->ok = false;
		return 0;
	}
	memcpy(&value, (const void *)(uintptr_t)at, bytes);
	return value;
}

/* ---- one conversion ---- */

static size_t parse_flags(struct conversion *c, const char *spec)
{
	size_t n = 1;

	for (;; n++) {
		switch (spec[n]) {
		case '-':
			c->left = true;
			break;
		case '+':
			c->plus = true;
			break;
		case ' ':
			c->space = true;
			break;
		case '#':
			c->alternate = true;
			break;
		case '0':
			c->zero = true;
			break;
		default:
			return n;
		}
	}
}

/* Digits; more than a call prints is as good as that. */
static size_t parse_digits(const char *text, size_t *value)
{
	size_t n = 0;

	for (*value = 0; text[n] >= '0' && text[n] <= '9'; n++)
		if (*value < MOST_TEXT)
			*value = *value * 10 + (size_t)(text[n] - '0');
	return n;
}

/* A number or an argument. False: it is negative. */
static bool parse_amount(struct printer *p, const char *spec, size_t *n, size_t *value)
{
	int64_t given;

	if (spec[*n] != '*') {
		*n += parse_digits(spec + *n, value);
		return true;
	}
	++*n;
	given = (int32_t)next_argument(p, 4);
	*value = (size_t)(given < 0 ? -given : given);
	return given >= 0;
}

/* NVIDIA's printf knows h, l and ll. With another length, as of %hhd, %zu and %ji, a conversion is not known. */
static size_t parse_length(struct conversion *c, const char *spec, size_t n)
{
	c->bytes = 4;
	if (spec[n] == 'h') {
		c->bytes = 2;
		return n + 1;
	}
	if (spec[n] != 'l')
		return n;
	c->bytes = 8;
	return n + (spec[n + 1] == 'l' ? 2 : 1);
}

/* spec: from the % on, with an end. False: it is none, as with a precision that is an argument. */
static bool parse_conversion(struct printer *p, struct conversion *c, const char *spec)
{
	size_t n = parse_flags(c, spec);

	if (!parse_amount(p, spec, &n, &c->width))
		c->left = true;
	if (spec[n] == '.') {
		n++;
		c->has_precision = true;
		if (spec[n] == '*')
			return false;
		if (!parse_amount(p, spec, &n, &c->precision))
			return false;
	}
	n = parse_length(c, spec, n);
	c->type = spec[n];
	c->length = n + 1;
	return c->type && strchr("diouxXceEfFgGaAps", c->type);
}

/* Only known, harmless conversions reach snprintf(). */
static void make_spec(const struct conversion *c, const char *length, char spec[16])
{
	snprintf(spec, 16, "%%%s%s%s%s%s%c", c->plus ? "+" : "", c->space ? " " : "", c->alternate ? "#" : "",
		 c->has_precision ? ".*" : "", length, c->type);
}

static int clamped(const struct conversion *c)
{
	return (int)(c->precision < MOST_DIGITS ? c->precision : MOST_DIGITS);
}

static void find_prefix(struct number *number)
{
	const char *t = number->text;

	number->prefix = t[0] == '+' || t[0] == '-' || t[0] == ' ';
	if (t[number->prefix] == '0' && (t[number->prefix + 1] == 'x' || t[number->prefix + 1] == 'X'))
		number->prefix += 2;
}

static size_t missing_digits(const struct conversion *c)
{
	return c->has_precision && c->precision > MOST_DIGITS ? c->precision - MOST_DIGITS : 0;
}

/* The bits beyond the size are cut off, and the sign goes on where there is one. */
static uint64_t cut(const struct conversion *c, uint64_t value)
{
	unsigned unused = 64 - 8 * c->bytes;

	value <<= unused;
	return c->type == 'd' || c->type == 'i' ? (uint64_t)((int64_t)value >> unused) : value >> unused;
}

static void print_integer(struct printer *p, const struct conversion *c, struct number *number)
{
	uint64_t value = cut(c, next_argument(p, c->bytes == 8 ? 8 : 4));
	char spec[16];

	make_spec(c, "ll", spec);
	number->length =
		(size_t)(c->has_precision
				 ? snprintf(number->text, sizeof(number->text), spec, clamped(c), (long long)value)
				 : snprintf(number->text, sizeof(number->text), spec, (long long)value));
	find_prefix(number);
	number->digits = number->prefix;
	number->zeroes = missing_digits(c);
	number->zero_fill = !c->has_precision;
}

static void print_float(struct printer *p, const struct conversion *c, struct number *number)
{
	uint64_t bits = next_argument(p, 8);
	char spec[16];
	double value;

	memcpy(&value, &bits, 8);
	make_spec(c, "", spec);
	number->length =
		(size_t)(c->has_precision ? snprintf(number->text, sizeof(number->text), spec, clamped(c), value)
					  : snprintf(number->text, sizeof(number->text), spec, value));
	find_prefix(number);
	number->zero_fill = value - value == 0;
	number->digits = strcspn(number->text, c->type == 'a' || c->type == 'A' ? "pP" : "eE");
	if (number->zero_fill && (c->alternate || !strchr("gG", c->type)))
		number->zeroes = missing_digits(c);
}

static void put_number(struct printer *p, const struct conversion *c, const struct number *number)
{
	size_t length = number->length + number->zeroes, fill = c->width > length ? c->width - length : 0;
	bool zero = c->zero && !c->left && number->zero_fill;

	if (!c->left && !zero)
		repeat(p, ' ', fill);
	put(p, number->text, number->prefix);
	if (zero)
		repeat(p, '0', fill);
	put(p, number->text + number->prefix, number->digits - number->prefix);
	repeat(p, '0', number->zeroes);
	put(p, number->text + number->digits, number->length - number->digits);
	if (c->left)
		repeat(p, ' ', fill);
}

static void put_text(struct printer *p, const struct conversion *c, const char *text, size_t length)
{
	size_t fill = c->width > length ? c->width - length : 0;

	if (!c->left)
		repeat(p, ' ', fill);
	put(p, text, length);
	if (c->left)
		repeat(p, ' ', fill);
}

/*
 * The most bytes of a text that are read: no more than are printed. A right-aligned text is read up to its width, since
 * its length decides the number of blanks.
 */
static size_t text_limit(const struct printer *p, const struct conversion *c)
{
	size_t limit = MOST_TEXT - p->total, width = c->width < MOST_TEXT ? c->width : MOST_TEXT;

	if (!c->left && width > limit)
		limit = width;
	return c->has_precision && c->precision < limit ? c->precision : limit;
}

static void print_string(struct printer *p, const struct conversion *c)
{
	uint64_t address = next_argument(p, 8);
	const char *text;
	size_t length;

	if (p->total == MOST_TEXT)
		return;
	text = ptx_check_string(p->ctx, address, text_limit(p, c), &length);
	if (text)
		put_text(p, c, text, length);
	else
		p->ok = false;
}

static void print_small(struct printer *p, const struct conversion *c)
{
	uint64_t value = next_argument(p, c->type == 'c' ? 4 : 8);
	char text[24] = {(char)value};
	int length = 1;

	if (c->type == 'p')
		length = snprintf(text, sizeof(text), value ? "0x%llx" : "(nil)", (unsigned long long)value);
	put_text(p, c, text, (size_t)length);
}

static void convert(struct printer *p, const struct conversion *c)
{
	struct number number = {.length = 0};

	if (c->type == 's') {
		print_string(p, c);
	} else if (c->type == 'c' || c->type == 'p') {
		print_small(p, c);
	} else {
		if (strchr("diouxX", c->type))
			print_integer(p, c, &number);
		else
			print_float(p, c, &number);
		put_number(p, c, &number);
	}
}

/*
 * Prints a conversion, which begins with %; returns its length in the format. The text is copied: other threads, and
 * the program, may write to it meanwhile.
 */
static size_t print_conversion(struct printer *p, const char *at, size_t length)
{
	struct conversion c = {.type = 0};
	char spec[MOST_SPEC] = "";
	uint64_t arguments = p->arguments;
	uint32_t count = p->count;

	memcpy(spec, at, length < MOST_SPEC - 1 ? length : MOST_SPEC - 1);
	if (spec[1] == '%') {
		put(p, "%", 1);
		return 2;
	}
	if (parse_conversion(p, &c, spec)) {
		convert(p, &c);
		return c.length;
	}
	p->arguments = arguments;
	p->count = count;
	put(p, "%", 1);
	return 1;
}

/* Gives back how many arguments the format took, as CUDA's printf does. */
static uint64_t print_lane(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread)
{
	struct printer p = {.ctx = ctx, .arguments = a[32], .ok = true};
	const char *text;
	size_t length;

	if (!a[0])
		return UINT32_MAX;
	text = ptx_check_string(ctx, a[0], MOST_FORMAT, &length);
	for (size_t n = 0; text && n < length && p.ok;) {
		const char *percent = memchr(text + n, '%', length - n);
		size_t plain = percent ? (size_t)(percent - text) - n : length - n;

		put(&p, text + n, plain);
		n += plain;
		if (percent)
			n += print_conversion(&p, percent, length - n);
	}
	if (!text || !p.ok)
		ptx_fault_at(ctx, site, PTX_FAULT_ILLEGAL_ADDRESS, text ? p.arguments : a[0], thread);
	flush(&p);
	return p.count;
}

/* How much is printed of an assertion: of the condition, and of the names of the file and the function. */
#define MOST_WORDS 300
#define MOST_NAME 200

/* At most so much is printed: the end may have been overwritten since it was checked. */
static int shown(const char *text, size_t length, size_t limit)
{
	return text ? (int)(length < limit ? length : limit) : 1;
}

static uint64_t assert_lane(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread)
{
	size_t n[3];
	const char *what = ptx_check_string(ctx, a[0], MOST_WORDS, &n[0]),
		   *file = ptx_check_string(ctx, a[32], MOST_NAME, &n[1]);
	const char *function = ptx_check_string(ctx, a[96], MOST_NAME, &n[2]);
	const uint32_t *d = ctx->binary->blockdim;
	char text[1024];
	int length;

	length = snprintf(
		text, sizeof(text), "%.*s:%u: %.*s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%.*s` failed.\n",
		shown(file, n[1], MOST_NAME), file ? file : "?", (unsigned)a[64], shown(function, n[2], MOST_NAME),
		function ? function : "?", ctx->ctaid[0], ctx->ctaid[1], ctx->ctaid[2], thread % d[0],
		thread / d[0] % d[1], thread / d[0] / d[1], shown(what, n[0], MOST_WORDS), what ? what : "?");
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

static uint64_t decide_lane(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread)
{
	if (!ctx->launch->decide || !ctx->launch->decide(a[0], (uint32_t)a[32]))
		ptx_fault_at(ctx, site, PTX_FAULT_ILLEGAL_ADDRESS, a[0], thread);
	return 0;
}

/* Argument n of a lane is a[32 * n]. */
static const struct {
	uint64_t (*lane)(struct ptx_context *ctx, const struct ptx_site *site, const uint64_t *a, uint32_t thread);
	bool fails; /* the kernel ends, once all lanes that are there have had their say */
} externals[PTX_EXTERNAL_COUNT] = {
	[PTX_EXTERNAL_ASSERTFAIL] = {assert_lane, true},       [PTX_EXTERNAL_FREE] = {free_lane, false},
	[PTX_EXTERNAL_MALLOC] = {malloc_lane, false},          [PTX_EXTERNAL_VPRINTF] = {print_lane, false},
	[PTX_EXTERNAL_SET_CONDITIONAL] = {decide_lane, false},
};

uint64_t ptx_rt_call(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *arguments,
		     uint64_t *result, uint32_t thread, uint32_t live)
{
	const struct ptx_site *site = &ctx->binary->sites[number];

	if (site->operation == PTX_EXTERNAL_CALL_ADDRESS) {
		ptx_call_address(ctx, mask, arguments, thread, live);
		return 0;
	}
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);

		result[lane] = externals[site->operation].lane(ctx, site, arguments + lane, thread + lane);
	}
	if (externals[site->operation].fails && mask)
		ptx_fault_at(ctx, site, PTX_FAULT_ASSERT, 0, thread + (unsigned)__builtin_ctz(mask));
	return 0;
}
