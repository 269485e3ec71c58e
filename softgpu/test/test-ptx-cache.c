/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled kernels on disk. */
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/test/harness.h"
#include "test/unit/folder.h"
#include "softgpu/front/ptx-statistics.h"
#include "softgpu/jit/ptx-version.h"

/* Odd threads go another way, and the last warp is not full: both versions are needed. A variable has an address. */
#define KERNEL                                                                                                         \
	PTX_HEAD ".global .align 4 .u32 bias = 7;\n"                                                                   \
		 ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"                                      \
		 ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\nld.param.u64 %l1, [p_out];\n"                 \
		 "mov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\nld.global.u32 %r2, "        \
		 "[bias];\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra $even;\nmul.lo.u32 %r2, %r2, "     \
		 "%r1;\n$even:\nst.global.u32 [%l3], %r2;\nret;\n}\n"

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
	/* the text decides */
	run_kernel(KERNEL "// other\n", 0, (struct expected){2, 0});
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

/* Whatever decides about the code is in the key. */
static void keys(void **state)
{
	struct ptx_version versions[] = {{false, false, false}, {true, false, false}, {false, true, false},
					 {true, true, false},   {false, false, true}, {true, false, true}};
	static const uint32_t wide[3] = {32, 2, 1}, tall[3] = {2, 32, 1};
	struct ptx_module *m, *other;
	struct vcuda_cache_key k[8];

	(void)state;
	map.count = 0;
	m = load(KERNEL);
	other = load(KERNEL "\n//\n");
	for (unsigned n = 0; n < 6; n++)
		assert_true(ptx_key_version(ptx_module_kernel(m, 0), wide, versions[n], &k[n]));
	assert_true(ptx_key_version(ptx_module_kernel(m, 0), tall, versions[0], &k[6]));
	assert_true(ptx_key_version(ptx_module_kernel(other, 0), wide, versions[0], &k[7]));
	for (unsigned n = 0; n < 8; n++)
		for (unsigned i = 0; i < n; i++)
			assert_memory_not_equal(&k[n], &k[i], sizeof(k[0]));
	ptx_module_destroy(other);
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kernels, set_up, tear_down),
		cmocka_unit_test(keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
