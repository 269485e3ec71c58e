/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that are read when a kernel needs them: what is known of a text, kept, damaged, and used by many threads. */
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/test/harness.h"
#include "softgpu/jit/ptx-compile.h"
#include "softgpu/cache/ptx-cache.h"
#include "softgpu/front/ptx-facts.h"
#include "softgpu/front/ptx-statistics.h"
#include "softgpu/runtime/ptx-run.h"

#define CHECK_END() _exit(1)
#include "test/check.h"

static char folder[64];

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/test-ptx-lazy-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	setenv("VCUDA_CACHE", folder, 1);
	return unsetenv("VCUDA_CPU_CACHE");
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	setenv("VCUDA_CPU_CACHE", "0", 1);
	return system(command);
}

/* In a process of its own, since the folder is chosen once. */
static void in_child(void (*run)(void))
{
	int status = -1;

	fflush(stdout);
	if (!fork()) {
		alarm(600);
		run();
		exit(0);
	}
	wait(&status);
	assert_int_equal(status, 0);
}

#define BEGIN ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %l<8>;\n"
#define KERNEL(name, code) \
	".visible .entry " name "(.param .u64 p_out, .param .u64 p_in)\n{\n" BEGIN "ld.param.u64 %l1, [p_out];\n" \
	"mov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\n" code \
	"st.global.u32 [%l3], %r2;\nret;\n}\n"
#define FUNCTION(name, code) \
	".func (.param .b32 r) " name "(.param .b32 a)\n{\n" BEGIN "ld.param.b32 %r1, [a];\n" code \
	"st.param.b32 [r], %r2;\nret;\n}\n"
#define CALL(name, to, from) \
	"{\n.param .b32 q;\n.param .b32 s;\nst.param.b32 [q], " from ";\ncall (s), " name ", (q);\n" \
	"ld.param.b32 " to ", [s];\n}\n"

/* Braces in comments, strings and vectors; shared memory of one kernel only; a function that one of them needs. */
static const char sample[] = PTX_HEAD
	".func (.param .b32 r) twice(.param .b32 a);\n"
	".global .align 8 .u64 pointer = twice;\n"
	KERNEL("first", "// }\n/* } \n\" { */ .pragma \"}\";\n" CALL("twice", "%r2", "%r1"))
	KERNEL("second", ".shared .align 4 .b8 area[1000];\n.local .align 4 .b8 own[12];\nmov.u32 %r3, area;\n"
			 "st.shared.u32 [%r3], %r1;\nmov.u32 %r2, 5;\n")
	FUNCTION("twice", "add.s32 %r2, %r1, %r1;\n")
	FUNCTION("fib", "setp.lt.u32 %p1, %r1, 2;\nmov.u32 %r2, %r1;\n@%p1 bra $end;\nsub.s32 %r3, %r1, 1;\n"
		 CALL("fib", "%r4", "%r3") "sub.s32 %r3, %r1, 2;\n" CALL("fib", "%r5", "%r3")
		 "add.s32 %r2, %r4, %r5;\n$end:\n")
	KERNEL("third", "and.b32 %r3, %r1, 7;\n" CALL("fib", "%r2", "%r3"))
	KERNEL("fourth", "ld.global.u64 %l4, [pointer];\nshape: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
			 "{\n.param .b32 q;\n.param .b32 s;\nst.param.b32 [q], %r1;\ncall (s), %l4, (q), shape;\n"
			 "ld.param.b32 %r2, [s];\n}\n")
	KERNEL("fifth", "trap;\n");

static const char *const names[] = {"first", "second", "third", "fourth"};

static uint32_t expected(unsigned kernel, uint32_t thread)
{
	static const uint32_t fib[8] = {0, 1, 1, 2, 3, 5, 8, 13};
	const uint32_t values[] = {2 * thread, 5, fib[thread & 7], 2 * thread};

	return values[kernel];
}

static bool launch_kernel(struct ptx_module *m, const char *name, struct ptx_fault *fault, struct ptx_error *error)
{
	void *params[2] = {out32, in32};
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = params, .memory = &map};

	memset(fault, 0, sizeof(*fault));
	if (ptx_kernel_prepare(ptx_module_find_kernel(m, name), l.block, &l.binary, error) != PTX_OK)
		return false;
	return ptx_run_blocks(&l, 0, 1, fault);
}

static struct ptx_module *load_sample(void)
{
	map.count = 0;
	add_range(out32, sizeof(out32), true);
	return load(sample);
}

static void run_sample(struct ptx_module *m, unsigned kernel)
{
	struct ptx_fault fault;
	struct ptx_error error;

	memset(out32, 0, sizeof(out32));
	if (!launch_kernel(m, names[kernel], &fault, &error)) {
		fprintf(stderr, "%s: %s, fault %d\n", names[kernel], error.text, fault.kind);
		_exit(1);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		CHECK(out32[t] == expected(kernel, t));
}

static unsigned line_of(const char *text, const char *part)
{
	unsigned line = 1;

	for (const char *end = strstr(text, part); text < end; text++)
		line += *text == '\n';
	return line;
}

static uint64_t read_later(void)
{
	struct ptx_statistics s;

	ptx_statistics_get(&s);
	return s.bodies;
}

static uint64_t read_whole(void)
{
	struct ptx_statistics s;

	ptx_statistics_get(&s);
	return s.whole;
}

/* Each kernel has what it needs read, once, and its lines are those of the text. */
static void on_demand(void **state)
{
	struct ptx_module *m = load_sample();
	uint64_t before = read_later();
	struct ptx_fault fault;
	struct ptx_error error;

	(void)state;
	assert_non_null(m->facts);
	assert_int_equal(ptx_kernel_info(ptx_module_find_kernel(m, "first"))->static_shared, 0);
	assert_int_equal(ptx_kernel_info(ptx_module_find_kernel(m, "second"))->static_shared, 1000);
	assert_int_equal(ptx_kernel_info(ptx_module_find_kernel(m, "second"))->local_bytes, 12);
	assert_int_equal(ptx_kernel_info(ptx_module_find_kernel(m, "second"))->registers, 29);
	assert_int_equal(read_later(), before);
	run_sample(m, 1);
	assert_int_equal(read_later(), before + 1);
	run_sample(m, 0);
	assert_int_equal(read_later(), before + 3);
	run_sample(m, 3);
	assert_int_equal(read_later(), before + 4);
	run_sample(m, 2);
	assert_int_equal(read_later(), before + 6);
	for (unsigned k = 0; k < 4; k++)
		run_sample(m, k);
	assert_int_equal(read_later(), before + 6);
	assert_false(launch_kernel(m, "fifth", &fault, &error));
	assert_int_equal(fault.kind, PTX_FAULT_TRAP);
	assert_int_equal(fault.line, line_of(sample, "trap;"));
	ptx_module_destroy(m);
}

static unsigned announced;

/* Before the text is read. */
static void note_new(void)
{
	CHECK(read_whole() == 0);
	announced++;
}

static void only_load(void)
{
	ptx_module_announce_new(note_new);
	ptx_module_destroy(load_sample());
	CHECK(read_whole() == 1 && announced == 1);
	ptx_module_destroy(load_sample());
	CHECK(read_whole() == 1 && announced == 1);
}

static void load_and_run(void)
{
	struct ptx_module *m;

	ptx_module_announce_new(note_new);
	m = load_sample();
	CHECK(read_whole() == 0 && read_later() == 0 && announced == 0);
	for (unsigned k = 0; k < 4; k++)
		run_sample(m, k);
	CHECK(read_whole() == 0 && read_later() == 6);
	ptx_module_destroy(m);
}

/* The machine code is kept, too: no body is needed at all. */
static void run_kept(void)
{
	struct ptx_module *m = load_sample();

	for (unsigned k = 0; k < 4; k++)
		run_sample(m, k);
	CHECK(read_whole() == 0 && read_later() == 0);
	ptx_module_destroy(m);
}

static void kept(void **state)
{
	(void)state;
	in_child(only_load);
	in_child(load_and_run);
	in_child(run_kept);
}

#define BROKEN(instruction) PTX_HEAD KERNEL("good", "mov.u32 %r2, 1;\n") KERNEL("bad", instruction "\n")

static void refuse(const char *text, const char *at, const char *what)
{
	struct ptx_module *m;
	struct ptx_error error;

	CHECK(ptx_module_create(text, strlen(text), &m, &error) == PTX_INVALID);
	CHECK(!m && error.line == line_of(text, at) && strstr(error.text, what));
}

/* A broken text is read as a whole, whichever texts the cache knows. */
static void refuse_all(void)
{
	static const char good[] = BROKEN("mov.u32 %r2, 1;");

	for (unsigned n = 0; n < 3; n++) {
		refuse(BROKEN("mov.u32 %r2, nothing;"), "nothing", "nothing");
		refuse(BROKEN("add.s32 %r2;"), "add.s32 %r2;", "operands");
		refuse(BROKEN("bra $nowhere;"), "$nowhere", "$nowhere");
		ptx_module_destroy(load(good));
		CHECK(read_whole() == 3 * (n + 1) + 1);
	}
	/* the end of the text is missing */
	refuse(PTX_HEAD ".visible .entry cut()\n{\nret;\n// the end", "// the end", "ends inside");
}

static void broken(void **state)
{
	(void)state;
	in_child(refuse_all);
}

/* ---- what something else wrote ---- */

static struct vcuda_cache_key text_key(const char *text)
{
	const struct ptx_text one = {text, strlen(text)};
	struct vcuda_cache_key key;

	ptx_key_texts(&one, 1, &key);
	return key;
}

/* Loads whatever the cache says; reads all kernels; each either is what it is or has an error that says so. */
static unsigned survive(const char *text)
{
	static const uint32_t block[3] = {THREADS, 1, 1};
	struct ptx_module *m;
	struct ptx_error error;
	unsigned refused = 0;

	CHECK(ptx_module_create(text, strlen(text), &m, &error) == PTX_OK);
	for (size_t k = 0; k < ptx_module_kernels(m); k++) {
		struct ptx_plan *plan;

		memset(&error, 0, sizeof(error));
		if (ptx_plan_create(ptx_module_kernel(m, k), block, NULL, &plan, &error) != PTX_OK) {
			CHECK(error.text[0]);
			refused++;
		} else {
			ptx_plan_destroy(plan);
		}
	}
	ptx_module_destroy(m);
	return refused;
}

static void tamper_all(void)
{
	struct vcuda_cache_key text = text_key(sample), key;
	unsigned refused = 0;
	uint8_t *facts;
	size_t size;

	CHECK(ptx_key_facts(&text, &key));
	CHECK(survive(sample) == 0);
	facts = vcuda_cache_load(ptx_cache_default(), &key, &size);
	CHECK(facts);
	for (size_t n = 0; n < size; n++) {
		static const uint8_t changes[] = {0x01, 0x02, 0x10, 0x80, 0xff};

		for (unsigned c = 0; c < sizeof(changes); c++) {
			facts[n] ^= changes[c];
			CHECK(vcuda_cache_store(ptx_cache_default(), &key, facts, size));
			refused += survive(sample);
			facts[n] ^= changes[c];
		}
		/* shorter than it says */
		CHECK(vcuda_cache_store(ptx_cache_default(), &key, facts, n));
		CHECK(survive(sample) == 0);
	}
	CHECK(refused);
	free(facts);
	/* a refused module is forgotten, so the next load succeeds */
	survive(sample);
	CHECK(survive(sample) == 0);
}

/*
 * Facts of one text under the key of another, of which they seem to be. However often the kernel is asked for, it has the
 * same error, and what was read of it takes no more memory.
 */
static void swap(const char *good, const char *bad)
{
	struct vcuda_cache_key text = text_key(good), other = text_key(bad), key;
	struct ptx_module *m = load(good);
	uint32_t block[3] = {1, 1, 1};
	const struct ptx_binary *binary;
	struct ptx_error error;
	struct ptx_facts *facts;
	size_t used = 0;

	ptx_module_destroy(m);
	facts = ptx_facts_load(&text);
	CHECK(facts && ptx_key_facts(&other, &key));
	ptx_facts_store(facts, &other);
	free(facts);
	CHECK(ptx_module_create(bad, strlen(bad), &m, &error) == PTX_OK);
	CHECK(ptx_kernel_prepare(ptx_module_find_kernel(m, "good"), block, &binary, &error) == PTX_OK);
	for (unsigned n = 0; n < 9; n++) {
		/* twice for each shape, whose error is kept */
		block[0] = n / 2 + 1;
		CHECK(ptx_kernel_prepare(ptx_module_find_kernel(m, "bad"), block, &binary, &error) == PTX_INVALID);
		CHECK(error.line == line_of(bad, "mov.u32 %r2, q") && strstr(error.text, "q"));
		CHECK(!n || m->arena.used == used);
		used = m->arena.used;
	}
	ptx_module_destroy(m);
	refuse(bad, "mov.u32 %r2, q", "q");
}

/* A kernel whose own body can be read, and has variables, but not that of what it calls. */
#define BROKEN_CALL(instruction) \
	PTX_HEAD KERNEL("good", "mov.u32 %r2, 1;\n") FUNCTION("f", instruction "\n") \
	KERNEL("bad", ".shared .u32 a, b;\nst.shared.u32 [a], 1;\nst.shared.u32 [b], 2;\n" CALL("f", "%r2", "%r1"))

static void swap_kernels(void)
{
	swap(BROKEN("mov.u32 %r2, 1;"), BROKEN("mov.u32 %r2, q;"));
}

static void swap_functions(void)
{
	swap(BROKEN_CALL("mov.u32 %r2, 1;"), BROKEN_CALL("mov.u32 %r2, q;"));
}

static void tampered(void **state)
{
	(void)state;
	in_child(tamper_all);
	in_child(swap_kernels);
	in_child(swap_functions);
}

/* ---- texts that are not read in parts, and names ---- */

static void run_text(const char *text, bool in_parts, uint32_t want)
{
	struct ptx_module *m;
	struct ptx_fault fault;
	struct ptx_error error;

	map.count = 0;
	add_range(out32, sizeof(out32), true);
	m = load(text);
	assert_int_equal(m->facts != NULL, in_parts);
	memset(out32, 0, sizeof(out32));
	if (!launch_kernel(m, "test", &fault, &error))
		fail_msg("%s", error.text);
	for (uint32_t t = 0; t < THREADS; t++)
		assert_int_equal(out32[t], want);
	ptx_module_destroy(m);
}

static void names_and_places(void **state)
{
	(void)state;
	/* a variable of the module in a body */
	run_text(PTX_HEAD KERNEL("other", "mov.u32 %r2, 1;\n.global .u32 count = 3;\nld.global.u32 %r2, [count];\n")
		 KERNEL("test", "mov.u32 %r2, 4;\n"), false, 4);
	run_text(PTX_HEAD KERNEL("test", ".global .u32 count = 3;\nld.global.u32 %r2, [count];\n"), false, 3);
	/* calls read by a declaration whose types are not the definition's */
	run_text(PTX_HEAD ".func (.param .b32 r) f(.param .f32 a);\n"
		 KERNEL("test", ".param .b32 s;\ncall (s), f, (1.0);\nld.param.b32 %r2, [s];\n")
		 FUNCTION("f", "mov.b32 %r2, %r1;\n"), false, 0x3f800000);
	/* a label, and a variable of that name that comes later */
	run_text(PTX_HEAD KERNEL("test", "mov.u32 %r2, 6;\nbra later;\nmov.u32 %r2, 7;\nlater:\n")
		 ".global .u32 later = 9;\n", true, 6);
	/* an instruction that is not implemented may hold anything but a ; */
	run_text(PTX_HEAD KERNEL("other", "tex.2dms.v4.f32.s32 {%r1, %r2}}, {{;\n") KERNEL("test", "mov.u32 %r2, 8;\n"), true, 8);
	/* shared variables of one name in several kernels, and a function's */
	run_text(PTX_HEAD FUNCTION("f", ".shared .u32 word;\nst.shared.u32 [word], 11;\nbar.sync 0;\n"
					"ld.shared.u32 %r2, [word];\n")
		 KERNEL("other", ".shared .u32 word[99];\nst.shared.u32 [word], %r1;\nmov.u32 %r2, 1;\n")
		 KERNEL("test", ".shared .u32 word[2];\nst.shared.u32 [word], 1;\n" CALL("f", "%r2", "%r1")), true, 11);
	/* by another name */
	run_text(PTX_HEAD FUNCTION("f", "mov.u32 %r2, 12;\n")
		 ".func (.param .b32 r) g(.param .b32 a);\n" KERNEL("test", CALL("g", "%r2", "%r1")) ".alias g, f;\n",
		 true, 12);
}

/* Each text has functions of its own of one name, the second also one that hides the first's. */
static void linked(void **state)
{
	static const char one[] = PTX_HEAD FUNCTION("own", "mov.u32 %r2, 1;\n")
		".visible " FUNCTION("hidden", "mov.u32 %r2, 10;\n")
		KERNEL("first", CALL("own", "%r3", "%r1") CALL("hidden", "%r4", "%r1") "add.s32 %r2, %r3, %r4;\n");
	static const char two[] = PTX_HEAD
		KERNEL("second", CALL("hidden", "%r2", "%r1"))
		FUNCTION("own", "mov.u32 %r2, 2;\n") FUNCTION("hidden", "mov.u32 %r2, 20;\n")
		KERNEL("third", CALL("own", "%r3", "%r1") CALL("hidden", "%r4", "%r1") "add.s32 %r2, %r3, %r4;\n");
	const struct ptx_text texts[2] = {{one, strlen(one)}, {two, strlen(two)}};
	static const char *const order[] = {"third", "first", "second", "third", "first"};
	static const uint32_t want[] = {22, 11, 10, 22, 11};
	struct ptx_module *m;
	struct ptx_fault fault;
	struct ptx_error error;

	(void)state;
	if (ptx_module_link(texts, 2, &m, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_non_null(m->facts);
	map.count = 0;
	add_range(out32, sizeof(out32), true);
	for (unsigned n = 0; n < 5; n++) {
		memset(out32, 0, sizeof(out32));
		if (!launch_kernel(m, order[n], &fault, &error))
			fail_msg("%s: %s", order[n], error.text);
		assert_int_equal(out32[5], want[n]);
	}
	ptx_module_destroy(m);
}

/* Kernels of one name: if each text has a static or a weak one, the module has one. */
static void same_name(const char *linkage1, const char *linkage2, const char *linkage3, uint32_t want)
{
	static const char rest[] = " .entry k(.param .u64 p_out, .param .u64 p_in)\n{\n" BEGIN
				   "ld.param.u64 %l1, [p_out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 4;\n"
				   "add.s64 %l3, %l1, %l3;\nst.global.u32 [%l3], ";
	const char *const linkages[] = {linkage1, linkage2, linkage3};
	struct ptx_text texts[3];
	char space[3][1024];
	struct ptx_module *m;
	struct ptx_fault fault;
	struct ptx_error error;

	for (unsigned n = 0; n < 3; n++) {
		texts[n].text = space[n];
		texts[n].length = (size_t)snprintf(space[n], sizeof(space[n]), "%s%s%s%u;\nret;\n}\n", PTX_HEAD,
						   linkages[n], rest, n + 1);
	}
	if (ptx_module_link(texts, 3, &m, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_non_null(m->facts);
	assert_int_equal(ptx_module_kernels(m), 1);
	map.count = 0;
	add_range(out32, sizeof(out32), true);
	if (!launch_kernel(m, "k", &fault, &error))
		fail_msg("%s", error.text);
	assert_int_equal(out32[5], want);
	ptx_module_destroy(m);
}

static void same_names(void **state)
{
	(void)state;
	same_name("", "", "", 3);
	same_name("", ".weak", ".visible", 3);
	same_name(".weak", ".visible", ".weak", 2);
	same_name("", ".visible", "", 3);
	same_name(".weak", ".weak", "", 3);
}

/* ---- threads ---- */

#define LAUNCHERS 4

struct launcher {
	pthread_t thread;
	struct ptx_module *module;
	unsigned number;
	bool good;
};

static void *prepare_all(void *data)
{
	struct launcher *l = data;

	l->good = true;
	for (unsigned n = 0; n < 4; n++) {
		uint32_t block[3] = {32 * (1 + l->number % 2), 1, 1};
		struct ptx_kernel *k = ptx_module_find_kernel(l->module, names[(n + l->number) % 4]);
		const struct ptx_binary *binary;
		struct ptx_error error;

		l->good &= ptx_kernel_prepare(k, block, &binary, &error) == PTX_OK;
	}
	return NULL;
}

static void threads(void **state)
{
	struct launcher l[LAUNCHERS];

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		struct ptx_module *m = load_sample();
		uint64_t before = read_later();

		for (unsigned n = 0; n < LAUNCHERS; n++) {
			l[n] = (struct launcher){.module = m, .number = n};
			assert_int_equal(pthread_create(&l[n].thread, NULL, prepare_all, &l[n]), 0);
		}
		for (unsigned n = 0; n < LAUNCHERS; n++) {
			pthread_join(l[n].thread, NULL);
			assert_true(l[n].good);
		}
		assert_int_equal(read_later(), before + 6);
		for (unsigned k = 0; k < 4; k++)
			run_sample(m, k);
		ptx_module_destroy(m);
	}
}

/* One for the next module is enough. */
static void make_spares(void)
{
	size_t before;

	ptx_jit_make_spare();
	before = mallinfo2().uordblks;
	ptx_jit_make_spare();
	CHECK(mallinfo2().uordblks <= before);
}

static void spare(void **state)
{
	(void)state;
	in_child(make_spares);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* before those whose children must find no thread of LLVM's */
		cmocka_unit_test_setup_teardown(kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(broken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(tampered, set_up, tear_down),
		cmocka_unit_test(spare),
		cmocka_unit_test(on_demand),
		cmocka_unit_test(names_and_places),
		cmocka_unit_test(linked),
		cmocka_unit_test(same_names),
		cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
