/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that have locks and several threads, and several clients. */
#include "cupti.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <ucontext.h>
#include <unistd.h>

static CUdeviceptr data;

static void set_bytes(unsigned int calls)
{
	for (unsigned int i = 0; i < calls; i++)
		OK(cuMemsetD8Async(data, 0, i + 1, NULL));
	OK(cuCtxSynchronize());
}

static void wait_for(_Atomic bool *flag)
{
	while (!*flag)
		usleep(100);
}

/* ---- locks ---- */

/* The client's lock. A thread that has it may take it again: its own calls may ask it for a buffer. */
static pthread_mutex_t lock;
static _Atomic unsigned int waiters;

static void take_lock(void)
{
	waiters++;
	pthread_mutex_lock(&lock);
	waiters--;
}

static void give_locked(uint8_t **buffer, size_t *size, size_t *most)
{
	take_lock();
	give_buffer(buffer, size, most);
	pthread_mutex_unlock(&lock);
}

static uint64_t ticks_locked(void)
{
	uint64_t now;

	take_lock();
	OK(cuptiGetVersion(&(uint32_t){0}));
	now = (uint64_t)time(NULL);
	pthread_mutex_unlock(&lock);
	return now;
}

static void ignore(void *userdata, uint32_t domain, uint32_t id, const void *seen)
{
	(void)userdata, (void)domain, (void)id, (void)seen;
}

/*
 * Calls that a client may make while it holds its lock, and another thread waits for the lock in a function of the
 * client.
 */
static void use_all(void)
{
	subscriber_handle subscriber;
	CUstream stream;
	size_t n;

	set_bytes(1);
	OK(cuStreamCreate(&stream, 0));
	OK(cuStreamDestroy_v2(stream));
	OK(cuptiActivityEnable(CUPTI_KIND_KERNEL));
	OK(cuptiActivityDisable(CUPTI_KIND_KERNEL));
	OK(cuptiSubscribe(&subscriber, ignore, NULL));
	OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_DRIVER));
	OK(cuptiUnsubscribe(subscriber));
	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &n));
	CHECK(!n);
	OK(cuptiActivityFlushAll(0));
}

static void check_with_lock(void)
{
	forget_records();
	pthread_mutex_lock(&lock);
	/* Each record needs a buffer, for which the recorder asks. */
	set_bytes(3);
	while (!waiters)
		usleep(100);
	use_all();
	CHECK(count_records(CUPTI_KIND_MEMSET) == 4 && count_records(CUPTI_KIND_STREAM) == 1);
	pthread_mutex_unlock(&lock);
	set_bytes(3);
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMSET) == 7);
}

static subscriber_handle asking;
static _Atomic unsigned int asked;

/* The recorder asks for this, too. */
static void give_and_ask(uint8_t **buffer, size_t *size, size_t *most)
{
	OK(cuptiActivityEnable(CUPTI_KIND_MEMCPY));
	OK(cuptiEnableDomain(asked % 2, asking, CUPTI_DOMAIN_SYNCHRONIZE));
	GIVES(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
	asked++;
	give_buffer(buffer, size, most);
}

void test_locks(void)
{
	pthread_mutexattr_t recursive;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &recursive);
	OK(cuptiActivityRegisterCallbacks(give_locked, take_buffer));
	start_device();
	OK(cuMemAlloc_v2(&data, 1000));
	OK(cuptiActivityEnable(CUPTI_KIND_MEMSET));
	OK(cuptiActivityEnable(CUPTI_KIND_STREAM));
	buffer_most = 1;
	for (int i = 0; i < 10; i++)
		check_with_lock();
	/* The client's clock. */
	OK(cuptiActivityRegisterTimestampCallback(ticks_locked));
	for (int i = 0; i < 10; i++)
		check_with_lock();
	OK(cuptiSubscribe(&asking, ignore, NULL));
	OK(cuptiActivityRegisterCallbacks(give_and_ask, take_buffer));
	forget_records();
	set_bytes(30);
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMSET) == 30 && asked >= 30);
}

/* ---- clients ---- */

static uint8_t other_buffer[1 << 16] __attribute__((aligned(8)));
static _Atomic unsigned int other_given, other_taken;
static _Atomic bool other_waits, other_may_go;

static void give_other(uint8_t **buffer, size_t *size, size_t *most)
{
	other_waits = true;
	wait_for(&other_may_go);
	*buffer = other_given++ ? NULL : other_buffer;
	*size = sizeof(other_buffer);
	*most = 0;
}

static void take_other(CUcontext unused, uint32_t stream, uint8_t *buffer, size_t size, size_t used)
{
	(void)unused, (void)stream, (void)used;
	CHECK(buffer == other_buffer && size == sizeof(other_buffer));
	other_taken++;
}

static void *register_client(void *unused)
{
	wait_for(&other_waits);
	start_client();
	other_may_go = true;
	return unused;
}

static _Atomic bool is_taking;

static void take_slowly(CUcontext unused, uint32_t stream, uint8_t *buffer, size_t size, size_t used)
{
	if (gettid() != getpid()) {
		is_taking = true;
		usleep(100000);
	}
	take_buffer(unused, stream, buffer, size, used);
}

/* A flush waits for buffers that the recorder is handing over. */
static void check_slow_client(void)
{
	OK(cuptiActivityRegisterCallbacks(give_buffer, take_slowly));
	forget_records();
	buffer_most = 1;
	set_bytes(3);
	wait_for(&is_taking);
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMSET) == 3);
}

static _Atomic bool is_giving, may_give;

/* The library's own thread waits in this callback. */
static void give_late(uint8_t **buffer, size_t *size, size_t *most)
{
	if (gettid() != getpid()) {
		is_giving = true;
		wait_for(&may_give);
	}
	give_buffer(buffer, size, most);
}

/* A buffer that is given while another thread flushes comes back without a further flush. */
static void check_late_buffer(void)
{
	OK(cuptiActivityRegisterCallbacks(give_late, take_buffer));
	forget_records();
	buffer_most = 1;
	set_bytes(3);
	wait_for(&is_giving);
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMSET) == 3 && buffers_taken == buffers_given);
	OK(cuptiActivityDisable(CUPTI_KIND_MEMSET));
	buffers_given = buffers_taken = 0;
	may_give = true;
	while (buffers_taken != 1)
		usleep(100);
	CHECK(buffers_given == 1);
}

/* Buffers go back to the client that gave them, also one that is given while another client comes. */
void test_clients(void)
{
	pthread_t thread;

	start_device();
	OK(cuMemAlloc_v2(&data, 1000));
	OK(cuptiActivityEnable(CUPTI_KIND_MEMSET));
	other_may_go = true;
	OK(cuptiActivityRegisterCallbacks(give_other, take_other));
	set_bytes(1);
	CHECK(other_given == 1 && !other_taken);
	start_client();
	CHECK(other_taken == 1);
	set_bytes(5);
	OK(cuptiActivityFlushAll(0));
	CHECK(buffers_given && buffers_taken == buffers_given && other_taken == 1);

	other_given = other_taken = 0;
	other_may_go = other_waits = false;
	OK(cuptiActivityRegisterCallbacks(give_other, take_other));
	CHECK(!pthread_create(&thread, NULL, register_client, NULL));
	forget_records();
	set_bytes(5);
	CHECK(!pthread_join(thread, NULL));
	OK(cuptiActivityFlushAll(0));
	CHECK(other_taken == other_given && buffers_taken == buffers_given && count_records(CUPTI_KIND_MEMSET) == 5);
	/* The same functions again are the same client. */
	set_bytes(1);
	start_client();
	set_bytes(1);
	OK(cuptiActivityFlushAll(0));
	CHECK(buffers_taken == buffers_given && count_records(CUPTI_KIND_MEMSET) == 7);
	check_slow_client();
	check_late_buffer();
}

/* ---- subscribers ---- */

static subscriber_handle subscriber;
static _Atomic bool ends, is_alive;
static _Atomic unsigned int calls;

static void *call_always(void *unused)
{
	CUdevice device;

	while (!ends) {
		OK(cuDeviceGet(&device, 0));
		calls++;
	}
	return unused;
}

static void see_alive(void *alive, uint32_t domain, uint32_t id, const void *seen)
{
	(void)domain, (void)id, (void)seen;
	CHECK(*(_Atomic bool *)alive);
}

static _Atomic bool is_inside, has_left;

static void leave_slowly(void *userdata, uint32_t domain, uint32_t id, const void *seen)
{
	(void)userdata, (void)domain, (void)id, (void)seen;
	is_inside = true;
	usleep(100000);
	has_left = true;
}

static _Atomic bool first_is_inside, has_unsubscribed;
static pthread_t unsubscribing;

/* One thread unsubscribes in its callback while the other one is in its own. */
static void unsubscribe_inside(void *userdata, uint32_t domain, uint32_t id, const void *seen)
{
	(void)userdata, (void)domain, (void)id, (void)seen;
	CHECK(!has_unsubscribed);
	if (!pthread_equal(pthread_self(), unsubscribing)) {
		first_is_inside = true;
		wait_for(&has_unsubscribed);
		return;
	}
	wait_for(&first_is_inside);
	OK(cuptiUnsubscribe(subscriber));
	has_unsubscribed = true;
}

static void end_thread(void *userdata, uint32_t domain, uint32_t id, const void *seen)
{
	(void)userdata, (void)domain, (void)id, (void)seen;
	pthread_exit(NULL);
}

static void *call_once(void *unused)
{
	CUdevice device;

	cuDeviceGet(&device, 0);
	return unused;
}

static void subscribe(cupti_callback function, void *userdata)
{
	OK(cuptiSubscribe(&subscriber, function, userdata));
	OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_DRIVER));
}

/* No callback runs once the subscriber is gone. */
void test_unsubscribing(void)
{
	pthread_t threads[2];
	CUdevice device;

	start_device();
	subscribe(leave_slowly, NULL);
	CHECK(!pthread_create(&threads[0], NULL, call_once, NULL));
	wait_for(&is_inside);
	OK(cuptiUnsubscribe(subscriber));
	CHECK(has_left);
	CHECK(!pthread_join(threads[0], NULL));

	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, call_always, NULL));
	for (int i = 0; i < 200; i++) {
		unsigned int before = calls;

		is_alive = true;
		subscribe(see_alive, &is_alive);
		while (calls < before + 10)
			sched_yield();
		if (i % 2)
			OK(cuptiFinalize());
		else
			OK(cuptiUnsubscribe(subscriber));
		is_alive = false;
	}
	ends = true;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));

	unsubscribing = pthread_self();
	subscribe(unsubscribe_inside, NULL);
	CHECK(!pthread_create(&threads[0], NULL, call_once, NULL));
	OK(cuDeviceGet(&device, 0));
	CHECK(has_unsubscribed);
	CHECK(!pthread_join(threads[0], NULL));

	subscribe(end_thread, NULL);
	CHECK(!pthread_create(&threads[0], NULL, call_once, NULL));
	CHECK(!pthread_join(threads[0], NULL));
	OK(cuptiUnsubscribe(subscriber));
}

/* ---- flushes that cannot be complete ---- */

/* More than a call has under a sanitizer. */
#define MOST_STEPS 100000u

static _Atomic bool is_stopped, may_go_on;
static _Atomic bool caller_has_buffer;
static _Atomic unsigned int steps; /* until the caller stops in its call; 0: it runs freely */
static _Thread_local bool is_caller;

static void give_caller(uint8_t **buffer, size_t *size, size_t *most)
{
	caller_has_buffer |= is_caller;
	give_buffer(buffer, size, most);
}

static unsigned int calls_of_main(void)
{
	const struct cupti_api_record *r;
	unsigned int found = 0;

	for (unsigned int n = 0; (r = find_record(CUPTI_KIND_DRIVER, n)); n++)
		found += r->thread == (uint32_t)getpid();
	return found;
}

#ifdef __x86_64__

#define TRAP_FLAG 0x100

static void set_trap_flag(void *interrupted, bool is_set)
{
	greg_t *flags = &((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_EFL];

	*flags = is_set ? *flags | TRAP_FLAG : *flags & ~(greg_t)TRAP_FLAG;
}

/* From here on a signal comes after each instruction of the thread. */
static void begin_steps(int signal, siginfo_t *info, void *interrupted)
{
	(void)signal, (void)info;
	set_trap_flag(interrupted, true);
}

static void make_step(int signal, siginfo_t *info, void *interrupted)
{
	(void)signal, (void)info;
	if (steps && !--steps) {
		is_stopped = true;
		while (!may_go_on)
			usleep(10);
	}
	set_trap_flag(interrupted, steps);
}

/* Makes a call that stops after n instructions. Returns the ones that were missing; 0: it has stopped. */
static unsigned int stop_in_call(unsigned int n)
{
	CUdevice device;
	unsigned int missing;

	caller_has_buffer = false;
	while (!caller_has_buffer) {
		OK(cuDeviceGet(&device, 0));
		/* Another thread got the buffer, so that a flush would wait for a caller that stops where it gets one. */
		if (!caller_has_buffer && buffers_given != buffers_taken)
			OK(cuptiActivityFlushAll(0));
	}
	may_go_on = false;
	steps = n;
	CHECK(!raise(SIGUSR1));
	OK(cuDeviceGet(&device, 0));
	missing = steps;
	steps = 0;
	return missing;
}

/* Stops at each instruction of a call, from the last one on: the call is noted at its end. */
static void *stop_in_calls(void *unused)
{
	unsigned int missing;

	is_caller = true;
	missing = stop_in_call(MOST_STEPS);
	for (unsigned int n = MOST_STEPS - missing; n && !ends; n--)
		stop_in_call(n);
	ends = true;
	return unused;
}

/* A thread that is stopped while it notes a call holds all later notes up. A flush says so. */
void test_flush(void)
{
	struct sigaction begin = {.sa_sigaction = begin_steps, .sa_flags = SA_SIGINFO};
	struct sigaction step = {.sa_sigaction = make_step, .sa_flags = SA_SIGINFO};
	cupti_result result = CUPTI_SUCCESS;
	CUdevice device;
	pthread_t thread;

	CHECK(!sigaction(SIGUSR1, &begin, NULL) && !sigaction(SIGTRAP, &step, NULL));
	OK(cuptiActivityRegisterCallbacks(give_caller, take_buffer));
	start_device();
	OK(cuptiActivityEnable(CUPTI_KIND_DRIVER));
	CHECK(!pthread_create(&thread, NULL, stop_in_calls, NULL));
	while (!ends && result == CUPTI_SUCCESS) {
		sched_yield();
		if (!is_stopped)
			continue;
		forget_records();
		OK(cuDeviceGet(&device, 0));
		result = cuptiActivityFlushAll(0);
		CHECK(result == CUPTI_ERROR_UNKNOWN || (result == CUPTI_SUCCESS && calls_of_main() == 1));
		ends |= result != CUPTI_SUCCESS;
		is_stopped = false;
		may_go_on = true;
	}
	CHECK(!pthread_join(thread, NULL));
	CHECK(result == CUPTI_ERROR_UNKNOWN);
	OK(cuptiActivityFlushAll(0));
	CHECK(calls_of_main() == 1);
}

#else

void test_flush(void)
{
	printf("this processor has no single steps\n");
	exit(77);
}

#endif

/* Ends in the middle: the worker is killed from outside. */
void test_lost(void)
{
	start_client();
	start_device();
	OK(cuMemAlloc_v2(&data, 1000));
	OK(cuptiActivityEnable(CUPTI_KIND_MEMSET));
	set_bytes(3);
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMSET) == 3);
	printf("ready\n");
	fflush(stdout);
	CHECK(getchar() == '\n');
	while (cuMemsetD8Async(data, 0, 1, NULL) == CUDA_SUCCESS)
		usleep(100);
	GIVES(cuptiActivityFlushAll(0), CUPTI_ERROR_UNKNOWN);
	/* Nothing more is missing. */
	CHECK(count_records(CUPTI_KIND_MEMSET) == 3);
}
