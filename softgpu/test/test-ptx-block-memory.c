/* SPDX-License-Identifier: Apache-2.0 */
/* The account of memory of blocks: numbers of resident blocks, waits and refusals. */
#include <pthread.h>
#include <semaphore.h>

#include "softgpu/test/harness.h"

#define MIB (1ull << 20)
#define BLOCK 256

/* Writes to all of its local memory, counts its blocks, and waits until a flag is set. */
static const char kernel[] = PTX_HEAD
	".visible .entry k(.param .u64 words)\n{\n.local .align 8 .b8 d[61440];\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n"
	".reg .b64 %l<4>;\nld.param.u64 %l1, [words];\nmov.u64 %l2, d;\nmov.u32 %r1, 0;\n"
	"$next:\nst.local.u32 [%l2], %r1;\nadd.s64 %l2, %l2, 2048;\nadd.u32 %r1, %r1, 1;\n"
	"setp.lt.u32 %p1, %r1, 30;\n@%p1 bra $next;\nmov.u32 %r2, %tid.x;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra $wait;\n"
	"atom.global.add.u32 %r3, [%l1], 1;\n"
	"$wait:\nld.volatile.global.u32 %r3, [%l1+4];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra $wait;\nret;\n}\n";

static struct {
	uint32_t blocks, go;
} words;

static struct ptx_module *module;
static struct ptx_launch prepared;
static uint64_t each;

static int prepare(void **state)
{
	static uint64_t params[1] = {(uintptr_t)&words};
	struct ptx_error error;

	(void)state;
	map.count = 0;
	add_range(&words, sizeof(words), true);
	module = load(kernel);
	prepared = (struct ptx_launch){
		.grid = {16, 1, 1}, .block = {BLOCK, 1, 1}, .memory = &map, .params = params, .serial = 1};
	if (ptx_kernel_prepare(ptx_module_kernel(module, 0), prepared.block, &prepared.binary, &error) != PTX_OK)
		return -1;
	each = ptx_launch_memory(&prepared);
	return each > 15 * MIB && each < 20 * MIB ? 0 : -1;
}

static int destroy(void **state)
{
	(void)state;
	ptx_module_destroy(module);
	return 0;
}

static void begin(struct ptx_launch *l)
{
	words.blocks = words.go = 0;
	*l = prepared;
	l->serial = ++prepared.serial;
}

static uint32_t claimed, stalls;

static bool claim(void *owner, uint64_t *index)
{
	(void)owner;
	*index = claimed;
	return claimed < 16 && ++claimed;
}

/* After so many calls no further block is begun. */
static uint64_t stalled(void *owner)
{
	(void)owner;
	if (++stalls == 20)
		__atomic_store_n(&words.go, 1, __ATOMIC_RELAXED);
	if (!words.go)
		assert_in_range(claimed, 1, 4);
	return 0;
}

/* 16 blocks wait beside one another, and three fit into half of the memory. All blocks end. */
static void fewer_blocks(void **state)
{
	struct ptx_launch l;
	struct ptx_fault fault;

	(void)state;
	begin(&l);
	l.claim = claim;
	l.stalled = stalled;
	l.share = 1;
	l.resident = 16;
	claimed = 1;
	stalls = 0;
	ptx_limit_memory(8 * each - 1);
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
	while (claimed < 16)
		assert_true(ptx_run_blocks(&l, claimed++, 1, &fault));
	assert_int_equal(words.blocks, 16);
}

static sem_t may_end;

static void *run_one(void *launch)
{
	struct ptx_fault fault;
	void *ok = ptx_run_blocks(launch, 0, 1, &fault) ? launch : NULL;

	sem_wait(&may_end);
	return ok;
}

/* A block that never fits. */
static void too_much(void **state)
{
	struct ptx_launch l;
	struct ptx_fault fault;
	pthread_t thread;
	void *ok;

	(void)state;
	begin(&l);
	words.go = 1;
	ptx_limit_memory(each - 1);
	/* this thread still has the memory of its last block */
	sem_init(&may_end, 0, 1);
	assert_int_equal(pthread_create(&thread, NULL, run_one, &l), 0);
	pthread_join(thread, &ok);
	assert_null(ok);
	assert_int_equal(words.blocks, 0);
	ptx_limit_memory(each);
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
	assert_int_equal(words.blocks, 1);
}

/* A thread that has run a block keeps its memory until another one wants it. */
static void idle_threads(void **state)
{
	pthread_t threads[4];
	struct ptx_launch l;
	void *ok;

	(void)state;
	begin(&l);
	words.go = 1;
	ptx_limit_memory(each);
	sem_init(&may_end, 0, 0);
	for (unsigned n = 0; n < 4; n++)
		assert_int_equal(pthread_create(&threads[n], NULL, run_one, &l), 0);
	for (unsigned n = 0; n < 4; n++)
		sem_post(&may_end);
	for (unsigned n = 0; n < 4; n++) {
		pthread_join(threads[n], &ok);
		assert_non_null(ok);
	}
	assert_int_equal(words.blocks, 4);
}

static uint64_t let_go(void *owner)
{
	(void)owner;
	__atomic_store_n(&words.go, 1, __ATOMIC_RELAXED);
	return 0;
}

/* A block waits until that of another thread has ended. */
static void waits_for_another(void **state)
{
	struct ptx_launch l, other;
	struct ptx_fault fault;
	pthread_t thread;
	void *ok;

	(void)state;
	begin(&l);
	begin(&other);
	l.stalled = let_go;
	ptx_limit_memory(each);
	sem_init(&may_end, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, run_one, &other), 0);
	while (!__atomic_load_n(&words.blocks, __ATOMIC_RELAXED))
		sched_yield();
	assert_true(ptx_run_blocks(&l, 1, 1, &fault));
	sem_post(&may_end);
	pthread_join(thread, &ok);
	assert_non_null(ok);
	assert_int_equal(words.blocks, 2);
}

/* A block that waits for memory ends with its context. */
static void cancelled(void **state)
{
	static bool stop;
	struct ptx_launch l, other;
	struct ptx_fault fault;
	pthread_t thread;
	void *ok;

	(void)state;
	begin(&l);
	begin(&other);
	stop = true;
	l.cancel = &stop;
	ptx_limit_memory(each);
	sem_init(&may_end, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, run_one, &other), 0);
	while (!__atomic_load_n(&words.blocks, __ATOMIC_RELAXED))
		sched_yield();
	assert_false(ptx_run_blocks(&l, 1, 1, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_CANCELLED);
	let_go(NULL);
	sem_post(&may_end);
	pthread_join(thread, &ok);
	assert_non_null(ok);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fewer_blocks),      cmocka_unit_test(too_much),  cmocka_unit_test(idle_threads),
		cmocka_unit_test(waits_for_another), cmocka_unit_test(cancelled),
	};

	return cmocka_run_group_tests(tests, prepare, destroy);
}
