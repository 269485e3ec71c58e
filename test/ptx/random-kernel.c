/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random-kernel.h"
#include "value.h"

#define MOST_DEPTH 4

/* Inside which loop a statement is: where to go to leave it or go on with it. Only where no mask must be kept. */
struct loop {
	unsigned exit, next;
};

static void fill_block(struct random_state *s, struct random_statement *in, struct random_place place,
		       const struct loop *loop, unsigned most);

/* fixed: may not be left out, because others need it. */
static struct random_statement *add(struct random_state *s, struct random_statement *in, char *before, bool fixed)
{
	struct random_statement *child;

	in->children = realloc(in->children, (in->count + 1) * sizeof(*child));
	child = &in->children[in->count++];
	*child = (struct random_statement){.before = before, .number = fixed ? 0 : ++s->numbers};
	return child;
}

static __attribute__((format(printf, 1, 2))) char *print(const char *format, ...)
{
	va_list list;
	char *text;

	va_start(list, format);
	if (vasprintf(&text, format, list) < 0)
		abort();
	va_end(list);
	return text;
}

/* A condition in predicate %b<number>, from a template with its other operands. */
static char *condition(struct random_state *s, const struct random_place *place, unsigned number, bool uniform)
{
	static const char *const varying[] = {"setp.lt.s32 %b#, $r, $r;",
					      "and.b32 %t, $r, 1; setp.eq.b32 %b#, %t, 0;",
					      "setp.gt.f32 %b#, $f, $f;", "and.pred %b#, $p, $p;",
					      "setp.lt.u32 %b#, $r, 0x40000000;"};
	static const char *const same[] = {"setp.lt.s32 %b#, $u, $u;",
					   "and.b32 %t, $u, 1; setp.eq.b32 %b#, %t, 0;"};
	const char *template = uniform ? same[random_below(s, 2)] : varying[random_below(s, 5)];
	char *filled = random_fill(s, place, template), *text, *at;

	at = strstr(filled, "%b#");
	text = print("%.*s%%b%u%s", (int)(at - filled), filled, number, at + 3);
	free(filled);
	return text;
}

/* How the lanes for which %b<number> holds are told, if anyone can: code that sets %m<number>. */
static char *ballot(const struct random_state *s, const struct random_place *place, unsigned number)
{
	if (!s->warp || (place->divergent && !place->mask))
		return strdup("");
	return print("vote.sync.ballot.b32 %%m%u, %%b%u, %s;", number, number, place->mask ? place->mask : "-1");
}

static char *mask_name(const struct random_state *s, const struct random_place *place, const char *letter,
		       unsigned number)
{
	return s->warp && (!place->divergent || place->mask) ? print("%%%s%u", letter, number) : NULL;
}

static void add_if(struct random_state *s, struct random_statement *in, const struct random_place *place,
		   const struct loop *loop)
{
	unsigned n = s->counters++, other = s->labels++, out = s->labels++;
	bool uniform = !place->divergent && !place->function && random_below(s, 3) == 0, both = random_below(s, 2);
	char *test = condition(s, place, n, uniform), *vote = uniform ? strdup("") : ballot(s, place, n), *mask;
	struct random_place inner = *place;
	struct random_statement *whole, *half;
	const char *parent = place->mask ? place->mask : "-1";

	inner.depth++;
	inner.divergent = place->divergent || !uniform;
	if (uniform) {
		mask = NULL;
	} else {
		mask = mask_name(s, place, "m", n);
		inner.mask = mask;
	}
	whole = add(s, in, print("%s %s @!%%b%u bra%s L%u;", test, vote, n, uniform ? ".uni" : "", both ? other : out),
		    false);
	whole->after = print("L%u:", out);
	half = add(s, whole, strdup(""), true);
	fill_block(s, half, inner, loop, 6);
	if (both) {
		half = add(s, whole, NULL, true);
		half->before = print("bra L%u;\nL%u:", out, other);
		if (mask)
			add(s, half, print("xor.b32 %%m%u, %%m%u, %s;", n, n, parent), true);
		fill_block(s, half, inner, loop, 6);
	}
	free(test);
	free(vote);
	free(mask);
}

static void add_loop(struct random_state *s, struct random_statement *in, const struct random_place *place)
{
	unsigned n = s->counters++, top = s->labels++, next = s->labels++, out = s->labels++;
	bool uniform = !place->divergent && !place->function && random_below(s, 2), masked;
	struct loop jumps = {out, next};
	struct random_place inner = *place;
	struct random_statement *whole;
	char *limit = random_fill(s, place, uniform ? "$u" : "$r"), *vote = strdup(""), *mask = NULL;

	inner.depth++;
	inner.divergent = place->divergent || !uniform;
	masked = !uniform && s->warp && (!place->divergent || place->mask) && random_below(s, 2);
	if (!uniform)
		inner.mask = NULL;
	if (masked) {
		mask = print("%%m%u", n);
		free(vote);
		vote = print("vote.sync.ballot.b32 %s, %%b%u, %s;", mask, n, mask);
		inner.mask = mask;
	}
	whole = add(s, in, NULL, false);
	whole->before = print("and.b32 %%n%u, %s, %u; mov.b32 %%c%u, 0; mov.b32 %%m%u, %s;\nL%u: "
			      "setp.lt.u32 %%b%u, %%c%u, %%n%u; %s @!%%b%u bra L%u;",
			      n, limit, uniform ? 3 : 7, n, n, place->mask ? place->mask : "-1", top, n, n, n, vote, n,
			      out);
	whole->after = print("L%u: add.u32 %%c%u, %%c%u, 1; bra L%u;\nL%u:", next, n, n, top, out);
	fill_block(s, whole, inner, uniform || masked ? NULL : &jumps, 6);
	free(limit);
	free(vote);
	free(mask);
}

/* Jumps into the middle of what others run from the start: no nesting of ifs gives this. */
static void add_tangle(struct random_state *s, struct random_statement *in, const struct random_place *place)
{
	unsigned n = s->counters++, k = s->counters++, first = s->labels++, second = s->labels++;
	struct random_place inner = *place;
	struct random_statement *whole, *part;
	char *one = condition(s, place, n, false), *two = condition(s, place, k, false);

	inner.depth++;
	inner.divergent = true;
	inner.mask = NULL;
	whole = add(s, in, print("%s %s @%%b%u bra L%u;", one, two, n, first), false);
	part = add(s, whole, strdup(""), true);
	fill_block(s, part, inner, NULL, 3);
	part = add(s, whole, print("@%%b%u bra L%u;", k, second), true);
	fill_block(s, part, inner, NULL, 3);
	part = add(s, whole, print("L%u:", first), true);
	fill_block(s, part, inner, NULL, 3);
	whole->after = print("L%u:", second);
	free(one);
	free(two);
}

/* Jumps through a table; each part runs on into the next one. */
static void add_switch(struct random_state *s, struct random_statement *in, const struct random_place *place)
{
	unsigned table = s->labels++, out = s->labels++, parts[3];
	struct random_place inner = *place;
	struct random_statement *whole, *part;
	char *index = random_fill(s, place, "and.b32 %t, $r, 3;");

	inner.depth++;
	inner.divergent = true;
	inner.mask = NULL;
	for (unsigned n = 0; n < 3; n++)
		parts[n] = s->labels++;
	whole = add(s, in, NULL, false);
	whole->before = print("%s\nT%u: .branchtargets L%u, L%u, L%u, L%u;\n\tbrx.idx %%t, T%u;", index, table, parts[0],
			      parts[1], parts[2], out, table);
	whole->after = print("L%u:", out);
	for (unsigned n = 0; n < 3; n++) {
		part = add(s, whole, print("L%u:", parts[n]), true);
		fill_block(s, part, inner, NULL, 2);
	}
	free(index);
}

static void add_jump(struct random_state *s, struct random_statement *in, const struct random_place *place,
		     const struct loop *loop)
{
	char *p = random_fill(s, place, random_below(s, 2) ? "@$p" : "@!$p");

	add(s, in, print("%s bra L%u;", p, random_below(s, 2) ? loop->exit : loop->next), false);
	free(p);
}

static void add_call(struct random_state *s, struct random_statement *in, const struct random_place *place)
{
	unsigned function = random_below(s, 2);
	char *text = random_fill(s, place,
				 "{ .param .b32 one; .param .b32 two; .param .b32 back; st.param.b32 [one], $r; "
				 "st.param.b32 [two], $r; call (back), function#, (one, two); "
				 "ld.param.b32 $r, [back]; }");

	*strchr(text, '#') = (char)('0' + function);
	add(s, in, text, false);
}

static void fill_block(struct random_state *s, struct random_statement *in, struct random_place place,
		       const struct loop *loop, unsigned most)
{
	char *mask = place.mask ? strdup(place.mask) : NULL;
	unsigned count = 1 + random_below(s, most);

	place.mask = mask;
	for (unsigned n = 0; n < count && s->left; n++) {
		unsigned kind = random_below(s, 16);

		s->left--;
		if (kind < 3 && place.depth < MOST_DEPTH)
			add_if(s, in, &place, loop);
		else if (kind == 3 && place.depth < MOST_DEPTH - 1)
			add_loop(s, in, &place);
		else if (kind == 4 && place.depth < MOST_DEPTH - 1 && !random_below(s, 2))
			add_tangle(s, in, &place);
		else if (kind == 4 && place.depth < MOST_DEPTH - 1)
			add_switch(s, in, &place);
		else if (kind == 5 && !place.function)
			add_call(s, in, &place);
		else if (kind == 6 && loop && place.depth)
			add_jump(s, in, &place, loop);
		else
			for (unsigned k = 0; k < 3; k++)
				add(s, in, random_instruction(s, &place), false);
	}
	free(mask);
}

static void print_statement(FILE *out, const struct random_statement *statement, const bool *skip)
{
	if (skip && statement->number && skip[statement->number])
		return;
	if (statement->before)
		fprintf(out, "\t%s\n", statement->before);
	for (unsigned n = 0; n < statement->count; n++)
		print_statement(out, &statement->children[n], skip);
	if (statement->after)
		fprintf(out, "\t%s\n", statement->after);
}

static void free_statement(struct random_statement *statement)
{
	for (unsigned n = 0; n < statement->count; n++)
		free_statement(&statement->children[n]);
	free(statement->children);
	free(statement->before);
	free(statement->after);
}

static void declare(FILE *out, unsigned counters)
{
	fprintf(out,
		"\t.reg .b32 %%r<8>, %%u<2>, %%t, %%y, %%z, %%x0, %%tuple, %%s, %%n<%u>, %%c<%u>, %%m<%u>;\n"
		"\t.reg .b64 %%l<4>, %%T, %%in, %%out, %%own, %%mine, %%cells;\n\t.reg .b16 %%h<3>, %%x;\n"
		"\t.reg .f32 %%f<5>, %%F;\n\t.reg .f64 %%d<3>, %%D;\n\t.reg .pred %%p<4>, %%q, %%b<%u>;\n",
		counters + 1, counters + 1, counters + 1, counters + 1);
}

/* A function's registers, from its two parameters. */
static void spread(FILE *out)
{
	for (unsigned n = 2; n < 8; n++)
		fprintf(out, "\tmad.lo.u32 %%r%u, %%r%u, %u, %%r%u;\n", n, n - 1, 1664525 + 4 * n, n - 2);
	for (unsigned n = 0; n < 4; n++)
		fprintf(out, "\tmov.b64 %%l%u, {%%r%u, %%r%u};\n\tsetp.lt.s32 %%p%u, %%r%u, 0;\n", n, n, n + 3, n,
			n + 1);
	for (unsigned n = 0; n < 3; n++)
		fprintf(out, "\tcvt.u16.u32 %%h%u, %%r%u;\n\tmov.b64 %%d%u, %%l%u;\n", n, n + 5, n, n);
	for (unsigned n = 0; n < 5; n++)
		fprintf(out, "\tmov.b32 %%f%u, %%r%u;\n", n, n + 2);
}

/* A thread's registers, from its 128 bytes of the input. */
static void fetch(FILE *out)
{
	fprintf(out, "\tmul.wide.u32 %%T, %%tuple, 32;\n\tadd.s64 %%T, %%T, %%in;\n"
		     "\tld.global.v4.b32 {%%r0, %%r1, %%r2, %%r3}, [%%T];\n"
		     "\tld.global.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%T+16];\n"
		     "\tld.global.v2.b64 {%%l0, %%l1}, [%%T+64];\n\tld.global.v2.b64 {%%l2, %%l3}, [%%T+112];\n"
		     "\tld.global.v4.f32 {%%f0, %%f1, %%f2, %%f3}, [%%T+160];\n\tld.global.f32 %%f4, [%%T+224];\n"
		     "\tld.global.v2.f64 {%%d0, %%d1}, [%%T+80];\n\tcvt.rn.f64.s32 %%d2, %%r1;\n");
	for (unsigned n = 0; n < 4; n++)
		fprintf(out, "\tsetp.lt.s32 %%p%u, %%r%u, %u;\n", n, n + 1, n * 1000);
	for (unsigned n = 0; n < 3; n++)
		fprintf(out, "\tcvt.u16.u32 %%h%u, %%r%u;\n", n, n + 5);
}

/* All registers to the thread's part of the output: f32 from RANDOM_SINGLES, f64 from RANDOM_DOUBLES. */
static void report(FILE *out)
{
	fprintf(out, "\tmul.wide.u32 %%T, %%tuple, %u;\n\tadd.s64 %%T, %%T, %%out;\n\tadd.s64 %%T, %%T, %u;\n"
		     "\tst.global.v4.b32 [%%T], {%%r0, %%r1, %%r2, %%r3};\n"
		     "\tst.global.v4.b32 [%%T+16], {%%r4, %%r5, %%r6, %%r7};\n"
		     "\tst.global.v2.b64 [%%T+32], {%%l0, %%l1};\n\tst.global.v2.b64 [%%T+48], {%%l2, %%l3};\n"
		     "\tst.global.v4.f32 [%%T+64], {%%f0, %%f1, %%f2, %%f3};\n\tst.global.f32 [%%T+80], %%f4;\n"
		     "\tst.global.f64 [%%T+88], %%d0;\n\tst.global.v2.f64 [%%T+96], {%%d1, %%d2};\n"
		     "\tadd.s32 %%t, %%u0, %%u1;\n\tst.global.u32 [%%T+84], %%t;\n"
		     "\tst.global.v2.b16 [%%T+112], {%%h0, %%h1};\n\tst.global.b16 [%%T+116], %%h2;\n"
		     "\tselp.b32 %%t, 1, 0, %%p0;\n",
		RANDOM_THREAD, RANDOM_RESULTS);
	for (unsigned n = 1; n < 4; n++)
		fprintf(out, "\t@%%p%u or.b32 %%t, %%t, %u;\n", n, 1 << n);
	fputs("\tst.global.u32 [%T+120], %t;\n\tret;\n}\n", out);
}

static void make_function(struct random_state *s, FILE *out, unsigned number)
{
	struct random_statement body = {0};
	unsigned left = s->left, numbers = s->numbers;

	s->left = 3;
	s->counters = 0;
	fill_block(s, &body, (struct random_place){.divergent = true, .function = true, .depth = 2}, NULL, 6);
	s->left = left;
	s->numbers = numbers;
	fprintf(out, ".func (.param .b32 back) function%u(.param .b32 one, .param .b32 two)\n{\n", number);
	declare(out, s->counters);
	fputs("\tld.param.b32 %r0, [one];\n\tld.param.b32 %r1, [two];\n", out);
	spread(out);
	print_statement(out, &body, NULL);
	fputs("\txor.b32 %r0, %r0, %r1;\n\txor.b32 %r0, %r0, %r2;\n\tadd.s32 %r0, %r0, %r5;\n"
	      "\tst.param.b32 [back], %r0;\n\tret;\n}\n",
	      out);
	free_statement(&body);
}

void random_kernel_make(struct random_kernel *k, uint64_t seed)
{
	static const unsigned whole[] = {32, 64, 96, 128, 256}, odd[] = {1, 7, 33, 50, 100}, few[] = {1, 4, 5, 7, 40};
	struct random_state s = {.value = value_mix(seed)};
	size_t size;
	FILE *out;

	memset(k, 0, sizeof(*k));
	k->seed = seed;
	s.warp = random_below(&s, 4) != 0;
	s.alone = k->alone = !s.warp && random_below(&s, 2);
	k->threads = s.threads = (s.warp ? whole : s.alone ? few : odd)[random_below(&s, 5)];
	k->blocks = 1 + random_below(&s, 3);
	for (unsigned n = 0; n < 2; n++) {
		out = open_memstream(&k->functions[n], &size);
		make_function(&s, out, n);
		fclose(out);
	}
	s.counters = 0;
	s.left = 3 + random_below(&s, 11);
	while (s.left)
		fill_block(&s, &k->root, (struct random_place){0}, NULL, 12);
	k->count = s.numbers + 1;
}

void random_kernel_free(struct random_kernel *k)
{
	free_statement(&k->root);
	free(k->functions[0]);
	free(k->functions[1]);
}

static void share(FILE *out)
{
	fputs("\t.shared .align 16 .b8 area[1024];\n\t.shared .align 16 .b8 cells[32];\n"
	      "\tmov.u32 %s, area;\n\tmad.lo.u32 %s, %x0, 4, %s;\n\tsetp.eq.b32 %q, %x0, 0;\n"
	      "\t@%q st.shared.v4.b32 [cells], {0, 0, 0, 0};\n\t@%q st.shared.v4.b32 [cells+16], {0, 0, 0, 0};\n"
	      "\tbar.sync 0;\n",
	      out);
}

static void prologue(FILE *out, bool alone)
{
	fprintf(out,
		"\t.local .align 16 .b8 stack[32];\n"
		"\tld.param.u64 %%out, [p_out];\n\tld.param.u64 %%in, [p_in];\n\tcvta.to.global.u64 %%out, %%out;\n"
		"\tcvta.to.global.u64 %%in, %%in;\n\tmov.u32 %%x0, %%tid.x;\n\tmov.u32 %%t, %%ctaid.x;\n"
		"\tmov.u32 %%y, %%ntid.x;\n\tmad.lo.u32 %%tuple, %%t, %%y, %%x0;\n"
		"\tadd.s64 %%cells, %%out, %u;\n\tmul.wide.u32 %%own, %%tuple, 32;\n\tadd.s64 %%own, %%own, %%out;\n"
		"\tmov.u64 %%mine, stack;\n"
		"\tst.local.v4.b32 [stack], {1, 2, 3, 4};\n\tst.local.v4.b32 [stack+16], {5, 6, 7, 8};\n"
		"\tld.global.u32 %%u0, [%%in];\n\tadd.s32 %%u0, %%u0, %%t;\n\tld.global.u32 %%u1, [%%in+4];\n",
		RANDOM_CELLS);
	if (!alone)
		share(out);
	fetch(out);
}

static bool calls(const struct random_statement *statement, const bool *skip, unsigned number)
{
	char name[16];

	if (skip && statement->number && skip[statement->number])
		return false;
	snprintf(name, sizeof(name), "function%u,", number);
	if (statement->before && strstr(statement->before, name))
		return true;
	for (unsigned n = 0; n < statement->count; n++)
		if (calls(&statement->children[n], skip, number))
			return true;
	return false;
}

char *random_kernel_text(const struct random_kernel *k, const bool *skip)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	fputs(".version 7.8\n.target sm_80\n.address_size 64\n", out);
	for (unsigned n = 0; n < 2; n++)
		if (calls(&k->root, skip, n))
			fputs(k->functions[n], out);
	fprintf(out, ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n");
	declare(out, k->count);
	prologue(out, k->alone);
	print_statement(out, &k->root, skip);
	report(out);
	fclose(out);
	return text;
}
