/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of 8, 6 and 4 bits, and powers of two: all values against what the formats are defined to be. */
#include "softgpu/test/harness.h"

static const struct format {
	const char *name;
	unsigned bits, mantissa;
	int bias;
	unsigned largest, nan; /* nan: what NaN becomes */
	unsigned place;
} formats[] = {
	{"e4m3", 8, 3, 7, 0x7e, 0x7f, 8}, {"e5m2", 8, 2, 15, 0x7b, 0x7f, 8}, {"e2m1", 4, 1, 1, 7, 7, 4},
	{"e2m3", 6, 3, 1, 0x1f, 0x1f, 8}, {"e3m2", 6, 2, 3, 0x1f, 0x1f, 8},
};

static double value_of(const struct format *f, unsigned code)
{
	unsigned size = code & ((1u << (f->bits - 1)) - 1), fraction = size & ((1u << f->mantissa) - 1);
	int exponent = (int)(size >> f->mantissa);
	double v = exponent ? ldexp(1 + ldexp(fraction, -(int)f->mantissa), exponent - f->bias)
			    : ldexp(fraction, 1 - f->bias - (int)f->mantissa);

	return code >> (f->bits - 1) & 1 ? -v : v;
}

/* The nearest of all numbers; of two the even one. */
static unsigned code_of(const struct format *f, float v, bool relu)
{
	/* no format reaches as far as this */
	double size = fmin(fabs((double)v), 1e6);
	unsigned best = 0;

	if (v != v)
		return f->nan;
	if (relu && v <= 0)
		return 0;
	for (unsigned code = 1; code <= f->largest; code++) {
		double far = fabs(value_of(f, code) - size), least = fabs(value_of(f, best) - size);

		if (far < least || (far == least && !(code & 1)))
			best = code;
	}
	return best | (unsigned)!!signbit(v) << (f->bits - 1);
}

static uint32_t half_code(double v)
{
	_Float16 h = (_Float16)v;
	uint16_t bits;

	memcpy(&bits, &h, 2);
	return v != v ? 0x7fff : bits;
}

/* Values that are exact, halfway and just beside halfway, in all formats, and the ends of f32. */
static uint32_t sample(unsigned n)
{
	static const uint32_t ends[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f7fffff, 0xff7fffff,
					1,          0x80000001, 0x00400000, 0x00400001, 0x003fffff, 0x00800000,
					0x477ff000, 0x7f000000, 0x7f000001, 0};
	uint32_t steps = bits32(ldexpf((float)(n % 129), -(int)(n / 129 % 24)));

	if (n % 16 == 5)
		return ends[n / 16 % 16];
	return (steps + n % 3 - (steps ? 1 : 0)) ^ (n % 5 == 2 ? 1u << 31 : 0);
}

#define SAMPLES 8192

static void each(const char *name, const char *body, uint32_t (*want)(const void *, uint32_t, uint32_t),
		 const void *what)
{
	struct ptx_module *m;
	char text[2048];

	snprintf(text, sizeof(text), "%s%s%s",
		 REGISTERS ".reg .b8 %c<4>;\n.reg .b32 %a, %b, %x;\nmul.wide.u32 %l3, %r1, 4;\n" LOAD32, body,
		 "st.global.b32 [%l3], %x;\nret;\n}\n");
	m = load_binary(text, 32);
	for (unsigned first = 0; first < SAMPLES; first += THREADS) {
		for (unsigned n = 0; n < THREADS; n++) {
			in32[2 * n] = sample(first + n);
			in32[2 * n + 1] = sample((first + n) * 3 + 1);
		}
		launch_binary(m, 32);
		for (unsigned n = 0; n < THREADS; n++)
			if (out32[n] != want(what, in32[2 * n], in32[2 * n + 1]))
				fail_msg("%s: %08x, %08x gives %x, not %x", name, in32[2 * n], in32[2 * n + 1],
					 out32[n], want(what, in32[2 * n], in32[2 * n + 1]));
	}
	ptx_module_destroy(m);
}

static uint32_t pair_of(const void *what, uint32_t a, uint32_t b)
{
	const struct format *f = what;

	return code_of(f, f32(a), false) << f->place | code_of(f, f32(b), false);
}

static uint32_t pair_of_relu(const void *what, uint32_t a, uint32_t b)
{
	const struct format *f = what;

	return code_of(f, f32(a), true) << f->place | code_of(f, f32(b), true);
}

static float half_value(uint32_t bits)
{
	uint16_t low = (uint16_t)bits;
	_Float16 h;

	memcpy(&h, &low, 2);
	return (float)h;
}

static uint32_t pair_of_halves(const void *what, uint32_t a, uint32_t b)
{
	const struct format *f = what;

	(void)b;
	return code_of(f, half_value(a >> 16), false) << f->place | code_of(f, half_value(a), false);
}

static uint32_t halves_of(const void *what, uint32_t a, uint32_t b)
{
	const struct format *f = what;
	uint32_t r = 0, code;
	double v;

	(void)b;
	for (unsigned n = 2; n--;) {
		code = a >> (10 + n * f->place) & ((1u << f->bits) - 1);
		v = value_of(f, code);
		if (f->nan > f->largest && (code & 0x7f) > f->largest)
			v = f->mantissa == 2 && (code & 0x7f) == 0x7c ? (code >> 7 ? -INFINITY : INFINITY) : NAN;
		r = r << 16 | half_code(v);
	}
	return r;
}

static void narrow(void **state)
{
	char body[512];

	(void)state;
	for (size_t n = 0; n < sizeof(formats) / sizeof(formats[0]); n++) {
		const struct format *f = &formats[n];
		const char *to = f->place == 4 ? "%c1" : "%h1", *wide = f->place == 4 ? "cvt.u32.u8" : "cvt.u32.u16";

		snprintf(body, sizeof(body), "cvt.rn.satfinite.%sx2.f32 %s, %%a, %%b;\n%s %%x, %s;\n", f->name, to,
			 wide, to);
		each(f->name, body, pair_of, f);
		snprintf(body, sizeof(body), "cvt.rn.satfinite.relu.%sx2.f32 %s, %%a, %%b;\n%s %%x, %s;\n", f->name, to,
			 wide, to);
		each(f->name, body, pair_of_relu, f);
		if (n < 3) {
			snprintf(body, sizeof(body), "cvt.rn.satfinite.%sx2.f16x2 %s, %%a;\n%s %%x, %s;\n", f->name, to,
				 wide, to);
			each(f->name, body, pair_of_halves, f);
		}
		/* bits 6 and 7 of numbers of 6 bits are not looked at */
		snprintf(body, sizeof(body), "shr.u32 %%a, %%a, 10;\n%s %s, %%a;\ncvt.rn.f16x2.%sx2 %%x, %s;\n",
			 f->place == 4 ? "cvt.u8.u32" : "cvt.u16.u32", to, f->name, to);
		each(f->name, body, halves_of, f);
	}
}

/* Code n is 2 to the n-127th; the sign is not looked at. */
static unsigned power_code(float v, bool up, bool finite)
{
	double size = fabs((double)v);
	unsigned code = 0;

	if (v != v)
		return 0xff;
	while (code < 255 && (up ? ldexp(1, (int)code - 127) < size : ldexp(1, (int)code - 126) <= size))
		code++;
	return finite && code == 255 ? 254 : code;
}

static uint32_t powers_of(const void *what, uint32_t a, uint32_t b)
{
	unsigned how = *(const unsigned *)what;

	return power_code(f32(a), how & 1, how & 2) << 8 | power_code(f32(b), how & 1, how & 2);
}

static uint32_t powers_of_halves(const void *what, uint32_t a, uint32_t b)
{
	(void)b;
	return powers_of(what, a & 0xffff0000, a << 16);
}

static uint32_t of_powers(const void *what, uint32_t a, uint32_t b)
{
	uint32_t r = 0, code;

	(void)what, (void)b;
	for (unsigned n = 2; n--;) {
		code = a >> (10 + n * 8) & 0xff;
		r = r << 16 | (code == 255 ? 0x7fff : bits32(ldexpf(1, (int)code - 127)) >> 16);
	}
	return r;
}

static void powers(void **state)
{
	char body[512];

	(void)state;
	for (unsigned how = 0; how < 4; how++) {
		snprintf(body, sizeof(body), "cvt.%s%s.ue8m0x2.f32 %%h1, %%a, %%b;\ncvt.u32.u16 %%x, %%h1;\n",
			 how & 1 ? "rp" : "rz", how & 2 ? ".satfinite" : "");
		each("ue8m0", body, powers_of, &how);
		snprintf(body, sizeof(body), "cvt.%s%s.ue8m0x2.bf16x2 %%h1, %%a;\ncvt.u32.u16 %%x, %%h1;\n",
			 how & 1 ? "rp" : "rz", how & 2 ? ".satfinite" : "");
		each("ue8m0 of bf16", body, powers_of_halves, &how);
	}
	each("bf16 of ue8m0", "shr.u32 %a, %a, 10;\ncvt.u16.u32 %h1, %a;\ncvt.rn.bf16x2.ue8m0x2 %x, %h1;\n", of_powers,
	     NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(narrow),
		cmocka_unit_test(powers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
