/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled kernels on disk. */
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/test/harness.h"
#include "test/unit/folder.h"
#include "softgpu/front/ptx-statistics.h"
#include "softgpu/jit/ptx-version.h"

/*
 * Odd threads go another way, and the last warp is not full: both versions are needed. With a loop there is no scalar
 * code. A variable has an address.
 */
#define KERNEL_OF(product)                                                                                             \
	".global .align 4 .u32 bias = 7;\n"                                                                            \
	".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"                                               \
	".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\nld.param.u64 %l1, [p_out];\n"                          \
	"mov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\nld.global.u32 %r2, "                 \
	"[bias];\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra $even;\n" product                           \
	"\n$even:\nmov.u32 %r3, 0;\n$again:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, 2;\n@%p2 bra $again;\n"       \
	"st.global.u32 [%l3], %r2;\nret;\n}\n"
#define KERNEL PTX_HEAD KERNEL_OF("mul.lo.u32 %r2, %r2, %r1;")

struct expected {
	uint64_t compiled, loaded;
};

/* In a process of its own, since the folder is chosen once. */
static void run_kernel(const char *text, unsigned move, struct expected want)
{
	int status = -1;

	if (!fork()) {
		struct ptx_statistics s;
		struct ptx_module *m;
		static uint32_t bias[16];

		alarm(600);
		map.count = 0;
		add_range(out32, sizeof(out32), true);
		m = load(text);
		bias[move] = 7 + move;
		add_range(&bias[move], 4, true);
		ptx_module_place(m, 0, (uintptr_t)&bias[move]);
		for (unsigned n = 0; n < 2; n++) {
			void *params[2] = {out32, in32};
			struct ptx_fault fault;

			memset(out32, 0, sizeof(out32));
			if (!launch(m, 1, 50, 1, 0, params, &fault))
				_exit(10);
			for (unsigned t = 0; t < THREADS; t++)
				if (out32[t] != (t >= 50 ? 0 : t & 1 ? (7 + move) * t : 7 + move))
					_exit(11);
		}
		ptx_module_destroy(m);
		ptx_statistics_get(&s);
		_exit(s.compiled != want.compiled ? 12 : s.loaded != want.loaded ? 13 : 0);
	}
	wait(&status);
	assert_int_equal(status, 0);
}

static void damage_all(void)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "for f in %s/vcuda/kernels/*; do printf x | dd of=$f bs=1 seek=900 conv=notrunc 2>/dev/null; done",
		 folder);
	assert_int_equal(system(command), 0);
}

static void kernels(void **state)
{
	char path[80];

	(void)state;
	setenv("XDG_CACHE_HOME", folder, 1);
	unsetenv("VCUDA_CACHE");
	unsetenv("VCUDA_CPU_CACHE");
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	run_kernel(KERNEL, 0, (struct expected){0, 2});
	/* the code does not know where the variable is */
	run_kernel(KERNEL, 3, (struct expected){0, 2});
	/* the kernel decides, not the text */
	run_kernel(KERNEL "// other\n", 0, (struct expected){0, 2});
	run_kernel(KERNEL ".visible .entry more()\n{\nret;\n}\n", 0, (struct expected){0, 2});
	damage_all();
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	run_kernel(KERNEL, 0, (struct expected){0, 2});
	setenv("VCUDA_CPU_CACHE", "0", 1);
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	unsetenv("VCUDA_CPU_CACHE");
	/* nowhere to keep anything */
	setenv("XDG_CACHE_HOME", "/proc/self", 1);
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	snprintf(path, sizeof(path), "%s/mine", folder);
	setenv("VCUDA_CACHE", path, 1);
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	run_kernel(KERNEL, 0, (struct expected){0, 2});
	unsetenv("VCUDA_CACHE");
}

/* Each input that decides about the code is in the key, and in the name of its function. */
static void keys(void **state)
{
	struct ptx_version versions[] = {{0},
					 {.masked = true},
					 {.quick = true},
					 {.masked = true, .quick = true},
					 {.checked = true},
					 {.masked = true, .checked = true},
					 {.quick = true, .scalar = true}};
	static const uint32_t wide[3] = {32, 2, 1}, tall[3] = {2, 32, 1};
	struct ptx_module *m, *other;
	struct vcuda_cache_key k[9];
	char names[9][PTX_NAME_BYTES];

	(void)state;
	map.count = 0;
	m = load(KERNEL);
	other = load(PTX_HEAD KERNEL_OF("mul.lo.u32 %r2, %r1, %r2;"));
	for (unsigned n = 0; n < 9; n++) {
		struct ptx_kernel *kernel = ptx_module_kernel(n == 8 ? other : m, 0);
		struct ptx_version version = n < 7 ? versions[n] : versions[0];

		assert_true(ptx_key_version(kernel, n == 7 ? tall : wide, version, &k[n]));
		ptx_key_name(kernel, n == 7 ? tall : wide, version, names[n]);
	}
	for (unsigned n = 0; n < 9; n++)
		for (unsigned i = 0; i < n; i++) {
			assert_memory_not_equal(&k[n], &k[i], sizeof(k[0]));
			assert_string_not_equal(names[n], names[i]);
		}
	ptx_module_destroy(other);
	ptx_module_destroy(m);
}

/* A module whose kernel calls a function and has variables, each part of which a row of `changes` may replace. */
enum part {
	HEAD,
	VARIABLES,
	MORE_VARIABLES,
	BEFORE,
	FUNCTION,
	BETWEEN,
	KERNEL_NAME,
	TUNING,
	SHARED,
	BODY,
	LABEL,
	CALL,
	AFTER,
	PARTS
};
static const char *const plain[PARTS] = {
	[HEAD] = ".version 7.8\n.target sm_80\n.address_size 64\n",
	[VARIABLES] = ".global .align 4 .u32 bias = 7;\n",
	[MORE_VARIABLES] = "",
	[BEFORE] = "",
	[FUNCTION] = ".func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<3>;\nld.param.u32 %r1, [x];\n"
		     "add.u32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n",
	[BETWEEN] = "",
	[KERNEL_NAME] = "test",
	[TUNING] = "",
	[SHARED] = ".shared .align 4 .b8 first[4];\n.shared .align 4 .b8 second[4];\n",
	[BODY] = "st.shared.u32 [first], %r1;\nst.shared.u32 [second], %r1;\n",
	[LABEL] = "$L__BB0_2",
	[CALL] = "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r2;\ncall.uni (b), twice, (a);\n"
		 "ld.param.b32 %r2, [b];\n}\n",
	[AFTER] = "",
};

static const struct {
	const char *what;
	enum part part;
	const char *text;
	bool same;
} changes[] = {
	{"a comment behind it", AFTER, "// end\n", true},
	{"a kernel behind it", AFTER, ".visible .entry more()\n{\nret;\n}\n", true},
	{"a kernel in front of its function", BEFORE, ".visible .entry more()\n{\nret;\n}\n", true},
	{"a function that it does not call", BEFORE, ".func more()\n{\nret;\n}\n", true},
	{"a variable behind the others", MORE_VARIABLES, ".global .u32 more[10];\n", true},
	{"another value", VARIABLES, ".global .align 4 .u32 bias = 8;\n", true},
	{"another number of the label", LABEL, "$L__BB7_4", true},
	{"blanks and a comment", BODY, "st.shared.u32   [first],%r1; // one\nst.shared.u32 [second], %r1;\n", true},
	{"a variable in front of the others", VARIABLES, ".global .u32 more;\n.global .align 4 .u32 bias = 7;\n",
	 false},
	{"another size", VARIABLES, ".global .align 4 .u32 bias[2] = {7, 7};\n", false},
	{"another alignment", VARIABLES, ".global .align 8 .u32 bias = 7;\n", false},
	{"another space", VARIABLES, ".const .align 4 .u32 bias = 7;\n", false},
	{"another function", FUNCTION,
	 ".func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<3>;\nld.param.u32 %r1, [x];\n"
	 "sub.u32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n",
	 false},
	{"another target", HEAD, ".version 7.8\n.target sm_86\n.address_size 64\n", false},
	{"another version", HEAD, ".version 8.0\n.target sm_80\n.address_size 64\n", false},
	{"another name", KERNEL_NAME, "test2", false},
	{"a number of threads", TUNING, ".maxntid 64, 1, 1\n", false},
	{"larger shared memory", SHARED, ".shared .align 4 .b8 first[8];\n.shared .align 4 .b8 second[4];\n", false},
	{"another instruction", BODY, "st.shared.u32 [second], %r1;\nst.shared.u32 [first], %r1;\n", false},
	{"another line", BODY, "\nst.shared.u32 [first], %r1;\nst.shared.u32 [second], %r1;\n", false},
	{"more lines between it and its function", BETWEEN, "\n", false},
	{"a source location", BODY, ".loc 1 2 3\nst.shared.u32 [first], %r1;\nst.shared.u32 [second], %r1;\n", false},
	{"another label", LABEL, "even", false},
	{"no call", CALL, "", false},
};

static void content_of(const char *const part[PARTS], struct vcuda_cache_key *key)
{
	static const uint32_t block[3] = {32, 1, 1};
	struct ptx_module *m;
	char text[4096];

	snprintf(text, sizeof(text),
		 "%s%s%s%s%s%s%s.visible .entry %s()\n%s{\n.reg .pred %%p;\n.reg .b32 %%r<4>;\nmov.u32 %%r1, %%tid.x;\n"
		 "ld.%s.u32 %%r2, [bias];\nsetp.eq.u32 %%p, %%r1, 3;\n@%%p bra %s;\n%s%s%s:\nret;\n}\n%s",
		 part[HEAD], part[VARIABLES], part[MORE_VARIABLES], part[SHARED], part[BEFORE], part[FUNCTION],
		 part[BETWEEN], part[KERNEL_NAME], part[TUNING], strstr(part[VARIABLES], ".const") ? "const" : "global",
		 part[LABEL], part[BODY], part[CALL], part[LABEL], part[AFTER]);
	map.count = 0;
	m = load(text);
	assert_true(ptx_key_version(ptx_module_find_kernel(m, part[KERNEL_NAME]), block, (struct ptx_version){0}, key));
	ptx_module_destroy(m);
}

/* The inputs of a kernel's code are in its key; the rest of its module is not. */
static void contents(void **state)
{
	static const char *const locations[] = {".loc 1 2 3\nst.shared.u32 [first], %r1;\n",
						".loc 1 9 5, function_name $L__info_string0, inlined_at 1 20 3\n"
						"st.shared.u32 [first], %r1;\n"};
	struct vcuda_cache_key key, other, located[2];
	const char *part[PARTS];

	(void)state;
	content_of(plain, &key);
	for (size_t n = 0; n < sizeof(changes) / sizeof(*changes); n++) {
		memcpy(part, plain, sizeof(plain));
		part[changes[n].part] = changes[n].text;
		content_of(part, &other);
		if (!memcmp(&key, &other, sizeof(key)) != changes[n].same)
			fail_msg("%s: the code is%s shared", changes[n].what, changes[n].same ? " not" : "");
	}
	memcpy(part, plain, sizeof(plain));
	for (size_t n = 0; n < 2; n++) {
		part[BODY] = locations[n];
		content_of(part, &located[n]);
	}
	assert_memory_equal(&located[0], &located[1], sizeof(key));
}

/* Code with addresses of functions, which are made from the text, is not shared with another text. */
static void addresses(void **state)
{
#define CALLS(before, target)                                                                                          \
	PTX_HEAD before ".func deep(.param .b32 x)\n{\nret;\n}\n.visible .entry test()\n{\n.reg .b64 %l<3>;\n" target  \
			"ret;\n}\n"
	static const uint32_t block[3] = {32, 1, 1};
	static const char *const texts[][2] = {
		{CALLS("", "mov.u64 %l1, deep;\n"), CALLS(".global .u32 more;\n", "mov.u64 %l1, deep;\n")},
		{CALLS(".const .u32 a;\n", "{\n.reg .pred %p;\nisspacep.const %p, %l1;\n}\n"),
		 CALLS(".const .u32 a;\n.const .u32 b;\n", "{\n.reg .pred %p;\nisspacep.const %p, %l1;\n}\n")},
	};

	(void)state;
	for (size_t n = 0; n < sizeof(texts) / sizeof(*texts); n++) {
		struct vcuda_cache_key keys[2];

		for (unsigned k = 0; k < 2; k++) {
			struct ptx_module *m;

			map.count = 0;
			m = load(texts[n][k]);
			assert_true(ptx_key_version(ptx_module_kernel(m, 0), block, (struct ptx_version){0}, &keys[k]));
			ptx_module_destroy(m);
		}
		assert_memory_not_equal(&keys[0], &keys[1], sizeof(keys[0]));
	}
}

/* A kernel that another text has moved: its fault names the line of the text that runs. */
static void lines(void **state)
{
#define FAULT                                                                                                          \
	PTX_HEAD "%s.visible .entry test(.param .u64 p)\n{\n.reg .b64 %%l<3>;\nmov.u64 %%l1, 8;\nst.global.u32 "       \
		 "[%%l1], 1;\nret;\n}\n"
	static const char *const before[] = {"", "\n\n\n"};
	unsigned line[2];

	(void)state;
	setenv("XDG_CACHE_HOME", folder, 1);
	for (unsigned n = 0; n < 2; n++) {
		void *params[1] = {out32};
		struct ptx_fault fault = {0};
		struct ptx_module *m;
		char text[512];

		snprintf(text, sizeof(text), FAULT, before[n]);
		map.count = 0;
		m = load(text);
		assert_false(launch(m, 1, 1, 1, 0, params, &fault));
		line[n] = fault.line;
		ptx_module_destroy(m);
	}
	assert_int_not_equal(line[0], 0);
	assert_int_equal(line[1], line[0] + 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kernels, set_up, tear_down),
		cmocka_unit_test(keys),
		cmocka_unit_test(contents),
		cmocka_unit_test(addresses),
		cmocka_unit_test_setup_teardown(lines, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
