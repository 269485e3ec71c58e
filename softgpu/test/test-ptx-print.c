/* SPDX-License-Identifier: Apache-2.0 */
/* Formats that another block writes to while printf reads them. */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/test/harness.h"

/* The end of the text comes and goes: block 1 never stops to write a digit and the end in turn. */
static const char spoiled[] = PTX_HEAD
	".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
	".visible .entry k(.param .u64 text, .param .u64 end)\n{\n.local .align 8 .b8 d[16];\n.reg .pred %p<2>;\n"
	".reg .b32 %r<4>;\n.reg .b64 %l<8>;\nld.param.u64 %l4, [text];\nld.param.u64 %l5, [end];\n"
	"mov.u64 %l1, d;\ncvta.local.u64 %l2, %l1;\nst.local.u64 [%l1], 7;\nmov.u32 %r1, %ctaid.x;\n"
	"setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $print;\n"
	"mov.u32 %r2, 0;\n$again:\nst.volatile.global.u8 [%l5], %r2;\nxor.b32 %r2, %r2, 48;\nbra $again;\n"
	"$print:\n{\n.param .b64 p0;\nst.param.b64 [p0], %l4;\n.param .b64 p1;\nst.param.b64 [p1], %l2;\n"
	".param .b32 q;\ncall.uni (q), vprintf, (p0, p1);\nld.param.b32 %r2, [q];\n}\nret;\n}\n";

static bool stop;

static void *spoil(void *launch)
{
	struct ptx_fault fault;

	ptx_run_blocks(launch, 1, 1, &fault);
	return NULL;
}

static void formats_that_change(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	/* nothing may be read behind the text */
	char *text = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t params[2] = {(uintptr_t)text, (uintptr_t)(text + page - 1)};
	struct ptx_launch l = {.grid = {2, 1, 1},
			       .block = {1, 1, 1},
			       .memory = &map,
			       .params = params,
			       .print = print,
			       .cancel = &stop};
	struct ptx_module *m;
	struct ptx_error error;
	struct ptx_fault fault;
	unsigned good = 0;
	pthread_t thread;

	(void)state;
	assert_true(text != MAP_FAILED && !mprotect(text + page, page, PROT_NONE));
	memset(text, '0', page);
	text[0] = '%';
	map.count = 0;
	add_range(text, page, true);
	m = load(spoiled);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_int_equal(pthread_create(&thread, NULL, spoil, &l), 0);
	/* without an end there is a fault; on a busy machine that may be all for a while */
	for (unsigned n = 0; n < 20000 && good < 500; n++) {
		if (ptx_run_blocks(&l, 0, 1, &fault)) {
			good++;
			continue;
		}
		assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
		sched_yield();
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	stop = false;
	text[page - 1] = 0;
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
	ptx_module_destroy(m);
	munmap(text, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_that_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
