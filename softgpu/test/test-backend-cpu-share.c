/* SPDX-License-Identifier: Apache-2.0 */
/* The software GPU beside another process that offers memory and asks for it: limits, and what is used up. */
#include "softgpu/test/backend-cpu-test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "softgpu/device/ipc.h"
#include "common/share.h"

#define MIB (1u << 20)

/* ---- the other process: it has no device, only what share.h gives ---- */

struct request {
	enum { OFFER, WITHDRAW, TAKE, CONNECT, HANG_UP } what;
	enum vcuda_share_kind kind;
	uint64_t bytes;
	struct vcuda_share_handle handle;
};

struct reply {
	CUresult result;
	struct vcuda_share_handle handle;
};

static int to_peer;
static pid_t peer_pid;

/* A silent connection to the process that offers the handle. */
static int connect_to(const struct vcuda_share_handle *handle)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_SEQPACKET, 0), n = 1 + sprintf(a.sun_path + 1, "vcuda-share-");

	for (int i = 0; i < 16; i++)
		n += sprintf(a.sun_path + n, "%02x", handle->server[i]);
	if (connect(s, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)))
		abort();
	return s;
}

static void serve(const struct request *q, struct reply *r)
{
	static int connection;
	struct vcuda_share_part part;
	int fd;

	*r = (struct reply){CUDA_SUCCESS, q->handle};
	if (q->what == OFFER) {
		fd = vcuda_share_file(q->bytes);
		if (fd < 0 || !vcuda_share_offer(q->kind, (struct vcuda_share_part){0, q->bytes}, fd, &r->handle))
			r->result = CUDA_ERROR_UNKNOWN;
	} else if (q->what == WITHDRAW) {
		vcuda_share_withdraw(&q->handle);
	} else if (q->what == CONNECT) {
		connection = connect_to(&q->handle);
	} else if (q->what == HANG_UP) {
		close(connection);
	} else {
		r->result = softgpu_ipc_result(vcuda_share_take(&q->handle, q->kind, &part, &fd));
		if (r->result == CUDA_SUCCESS)
			close(fd);
	}
}

static void start_peer(void)
{
	struct request q;
	struct reply r;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		abort();
	peer_pid = fork();
	if (peer_pid) {
		close(ends[1]);
		to_peer = ends[0];
		return;
	}
	close(ends[0]);
	while (read(ends[1], &q, sizeof(q)) == sizeof(q)) {
		serve(&q, &r);
		if (write(ends[1], &r, sizeof(r)) != sizeof(r))
			break;
	}
	_exit(0);
}

static struct reply ask_peer(struct request q)
{
	struct reply r;

	assert_int_equal(write(to_peer, &q, sizeof(q)), sizeof(q));
	assert_int_equal(read(to_peer, &r, sizeof(r)), sizeof(r));
	return r;
}

static struct vcuda_share_handle offer(enum vcuda_share_kind kind, uint64_t bytes)
{
	struct reply r = ask_peer((struct request){.what = OFFER, .kind = kind, .bytes = bytes});

	assert_int_equal(r.result, CUDA_SUCCESS);
	return r.handle;
}

static CUresult peer_takes(enum vcuda_share_kind kind, const struct vcuda_share_handle *handle)
{
	return ask_peer((struct request){.what = TAKE, .kind = kind, .handle = *handle}).result;
}

/* ---- the limit ---- */

static uint64_t free_mib(void)
{
	size_t bytes, total;

	assert_int_equal(cuda->cuMemGetInfo_v2(&bytes, &total), CUDA_SUCCESS);
	return bytes / MIB;
}

static CUresult open_memory(const struct vcuda_share_handle *offered, CUdeviceptr *p)
{
	CUipcMemHandle handle;

	memcpy(&handle, offered, sizeof(handle));
	return cuda->cuIpcOpenMemHandle_v2(p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/*
 * Memory of another process counts here as well: once, however often it is opened, until it is closed for the last
 * time.
 */
static void test_opened_memory_counts(void **state)
{
	struct vcuda_share_handle first = offer(VCUDA_SHARE_MEMORY, 40 * MIB), second = offer(VCUDA_SHARE_MEMORY, 40 * MIB);
	uint64_t before = free_mib();
	CUdeviceptr p, again, other, own;
	CUcontext context;

	assert_int_equal(open_memory(&first, &p), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before - 40);
	assert_int_equal(open_memory(&first, &again), CUDA_SUCCESS);
	assert_true(again == p);
	assert_int_equal(cuda->cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	assert_int_equal(open_memory(&first, &other), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before - 40);
	assert_int_equal(open_memory(&second, &own), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuMemAlloc_v2(&own, 30 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	/* memory that its exporter has freed counts here while it is imported */
	ask_peer((struct request){.what = WITHDRAW, .handle = first});
	assert_int_equal(cuda->cuCtxDestroy_v2(context), CUDA_SUCCESS);
	assert_int_equal(cuda->cuIpcCloseMemHandle(p), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before - 40);
	assert_int_equal(cuda->cuIpcCloseMemHandle(p), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before);
	assert_int_equal(open_memory(&second, &p), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before - 40);
	/* a context's end closes it */
	assert_int_equal(cuda->cuCtxDestroy_v2(*state), CUDA_SUCCESS);
	assert_int_equal(make_context(state), 0);
	assert_int_equal(free_mib(), before);
	ask_peer((struct request){.what = WITHDRAW, .handle = second});
}

static CUresult import(struct vcuda_share_handle *offered, uint64_t *handle)
{
	return cuda->cuMemImportFromShareableHandle(handle, offered, CU_MEM_HANDLE_TYPE_FABRIC);
}

/* As above for the memory of cuMemCreate(); this process's own may come back as well. */
static void test_imported_memory_counts(void **state)
{
	struct vcuda_share_handle first = offer(VCUDA_SHARE_ALLOCATION, 40 * MIB),
				second = offer(VCUDA_SHARE_ALLOCATION, 40 * MIB), mine;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	uint64_t before = free_mib(), a, b;
	CUdeviceptr p;

	assert_int_equal(import(&first, &a), CUDA_SUCCESS);
	assert_int_equal(import(&first, &b), CUDA_SUCCESS);
	assert_true(a != b);
	assert_int_equal(free_mib(), before - 40);
	assert_int_equal(cuda->cuMemRelease(a), CUDA_SUCCESS);
	assert_int_equal(import(&second, &a), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuMemCreate(&a, 40 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	/* a mapping keeps it */
	assert_int_equal(cuda->cuMemAddressReserve(&p, 40 * MIB, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemMap(p, 40 * MIB, 0, b, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemRelease(b), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before - 40);
	assert_int_equal(cuda->cuMemUnmap(p, 40 * MIB), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAddressFree(p, 40 * MIB), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before);

	assert_int_equal(cuda->cuMemCreate(&a, 40 * MIB, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemExportToShareableHandle(&mine, a, CU_MEM_HANDLE_TYPE_FABRIC, 0), CUDA_SUCCESS);
	assert_int_equal(import(&mine, &b), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemRelease(a), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before - 40);
	assert_int_equal(cuda->cuMemRelease(b), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before);
	assert_int_equal(import(&mine, &b), CUDA_ERROR_INVALID_VALUE);
}

/* ---- descriptors ---- */

/* The first number from `fd` on that nothing is open under. */
static int first_closed(int fd)
{
	while (fcntl(fd, F_GETFD) >= 0)
		fd++;
	return fd;
}

/* Everything below `fd` is open. Returns the number of the first further one. */
static int fill_below(int fd)
{
	int next = dup(STDERR_FILENO);

	while (next < fd)
		next = dup(STDERR_FILENO);
	close(next);
	return next;
}

static void set_descriptor_limit(rlim_t n)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/*
 * Without descriptors a request fails with an error, and works again once there are some. This is the first test, so
 * that the listener's descriptors are in order. Its reserve comes before the number that it takes for a client. A
 * connection has that number when the limit makes it unusable.
 */
static void test_no_descriptors(void **state)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	struct vcuda_share_handle mine, theirs = offer(VCUDA_SHARE_ALLOCATION, 2 * MIB), unknown;
	uint64_t before = free_mib(), handle, other;
	struct rlimit was;
	char log[300];
	int client;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	client = fill_below(100) + 4;
	assert_int_equal(cuda->cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemExportToShareableHandle(&mine, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0), CUDA_SUCCESS);
	unknown = mine;
	unknown.key[3] ^= 1;
	assert_int_equal(peer_takes(VCUDA_SHARE_ALLOCATION, &mine), CUDA_SUCCESS);
	/* below that: its memory, the offered file, the listener, the reserve */
	ask_peer((struct request){.what = CONNECT, .handle = mine});
	while (first_closed(0) <= client)
		usleep(1000);
	/* the last one goes to who asks, not to who has been silent for long */
	set_descriptor_limit((rlim_t)client + 1);
	usleep(2200000);
	assert_int_equal(peer_takes(VCUDA_SHARE_ALLOCATION, &mine), CUDA_SUCCESS);
	ask_peer((struct request){.what = HANG_UP});
	ask_peer((struct request){.what = CONNECT, .handle = mine});
	while (first_closed(0) <= client)
		usleep(1000);
	set_descriptor_limit((rlim_t)client);
	ask_peer((struct request){.what = HANG_UP});
	vcuda_log_capture(log, sizeof(log));
	assert_int_equal(cuda->cuMemCreate(&other, 2 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	vcuda_log_capture(NULL, 0);
	assert_non_null(strstr(log, "ulimit"));
	assert_int_equal(import(&theirs, &other), CUDA_ERROR_OUT_OF_MEMORY);
	for (int n = 0; n < 3; n++)
		assert_int_equal(peer_takes(VCUDA_SHARE_ALLOCATION, &mine), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(peer_takes(VCUDA_SHARE_ALLOCATION, &mine), CUDA_SUCCESS);
	assert_int_equal(peer_takes(VCUDA_SHARE_ALLOCATION, &unknown), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(peer_takes(VCUDA_SHARE_MEMORY, &mine), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(import(&theirs, &other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemRelease(other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(free_mib(), before);
}

/* ---- peers that connect and say nothing ---- */

static void test_silent_peers(void **state)
{
	enum { SILENT = 40 }; /* more than may wait at a time */
	struct timespec start, end;
	CUipcMemHandle offered;
	struct vcuda_share_handle handle;
	CUdeviceptr p;
	int silent[SILENT];

	assert_int_equal(cuda->cuMemAlloc_v2(&p, MIB), CUDA_SUCCESS);
	assert_int_equal(cuda->cuIpcGetMemHandle(&offered, p), CUDA_SUCCESS);
	memcpy(&handle, &offered, sizeof(handle));
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int n = 0; n < SILENT; n++) {
		silent[n] = connect_to(&handle);
		assert_int_equal(peer_takes(VCUDA_SHARE_MEMORY, &handle), CUDA_SUCCESS);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	/* A silent connection is kept for 5 s; waiting for each would take SILENT times as long. */
	assert_true(end.tv_sec - start.tv_sec < 5 * SILENT / 2);
	for (int n = 0; n < SILENT; n++)
		close(silent[n]);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
}

/* Whether a connection of another user's is ended at once. */
static int connect_as_other(const struct vcuda_share_handle *handle)
{
	struct pollfd p = {.events = POLLIN};

	if (setresuid(12345, 12345, 12345))
		return 2;
	p.fd = connect_to(handle);
	return poll(&p, 1, 3000) == 1 && p.revents & POLLHUP ? 0 : 1;
}

/* Other users take none of the places of permitted clients. */
static void test_other_users(void **state)
{
	CUipcMemHandle offered;
	struct vcuda_share_handle handle;
	CUdeviceptr p;
	pid_t child;
	int status;

	if (geteuid() != 0)
		skip();
	assert_int_equal(cuda->cuMemAlloc_v2(&p, MIB), CUDA_SUCCESS);
	assert_int_equal(cuda->cuIpcGetMemHandle(&offered, p), CUDA_SUCCESS);
	memcpy(&handle, &offered, sizeof(handle));
	child = fork();
	if (!child)
		_exit(connect_as_other(&handle));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(peer_takes(VCUDA_SHARE_MEMORY, &handle), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
}

/* ---- memory that is offered while work runs ---- */

static void wait_for_gate(CUstream s, CUresult status, void *gate)
{
	while (!__atomic_load_n((uint32_t *)gate, __ATOMIC_ACQUIRE))
		usleep(1000);
}

/* Work may wait for what the program does after the call: the call waits for none. */
static void test_offer_waits_for_nothing(void **state)
{
	CUstream s = stream(CU_STREAM_NON_BLOCKING);
	uint32_t gate = 0, *data;
	CUipcMemHandle handle;
	CUdeviceptr p;

	data = malloc(MIB);
	assert_int_equal(cuda->cuMemAlloc_v2(&p, MIB), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD32_v2(p, 1, MIB / 4), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamAddCallback(s, (void *)wait_for_gate, &gate, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD32Async(p, 2, MIB / 8, s), CUDA_SUCCESS);
	assert_int_equal(cuda->cuIpcGetMemHandle(&handle, p), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	__atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
	assert_int_equal(cuda->cuStreamSynchronize(s), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(data, p, MIB), CUDA_SUCCESS);
	for (size_t n = 0; n < MIB / 4; n++)
		assert_int_equal(data[n], n < MIB / 8 ? 2 : 1);
	free(data);
}

/* Records of one event that are under way have places of their own; more than there are fail, and do no harm. */
static void test_many_records(void **state)
{
	enum { PLACES = 511 };
	CUstream s = stream(CU_STREAM_NON_BLOCKING), idle = stream(CU_STREAM_NON_BLOCKING);
	uint32_t gate = 0;
	CUevent e;

	assert_int_equal(cuda->cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamAddCallback(s, (void *)wait_for_gate, &gate, 0), CUDA_SUCCESS);
	for (int n = 0; n < PLACES - 1; n++)
		assert_int_equal(cuda->cuEventRecordWithFlags(e, s, 0), CUDA_SUCCESS);
	/* the one place that is left serves as often as it is free */
	for (int n = 0; n < 3; n++) {
		assert_int_equal(cuda->cuEventRecordWithFlags(e, idle, 0), CUDA_SUCCESS);
		assert_int_equal(cuda->cuEventSynchronize(e), CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuEventRecordWithFlags(e, s, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventQuery(e), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuEventRecordWithFlags(e, s, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuStreamWaitEvent(idle, e, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamQuery(idle), CUDA_ERROR_NOT_READY);
	__atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
	assert_int_equal(cuda->cuEventSynchronize(e), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamSynchronize(idle), CUDA_SUCCESS);
	assert_int_equal(cuda->cuStreamSynchronize(s), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventRecordWithFlags(e, s, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventSynchronize(e), CUDA_SUCCESS);
	assert_int_equal(cuda->cuEventDestroy_v2(e), CUDA_SUCCESS);
}

/* Each thread counts up a word of its own, far from the others', and says in the end how often. */
static const char churn_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry churn(.param .u64 p, .param .u64 flags, .param .u64 counts)\n{\n"
	"	.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
	"	ld.param.u64 %rd1, [p];\n	ld.param.u64 %rd2, [flags];\n	ld.param.u64 %rd3, [counts];\n"
	"	mov.u32 %r1, %ctaid.x;\n	mov.u32 %r2, %ntid.x;\n	mov.u32 %r3, %tid.x;\n"
	"	mad.lo.u32 %r1, %r1, %r2, %r3;\n"
	"	mul.wide.u32 %rd4, %r1, 65536;\n	add.s64 %rd1, %rd1, %rd4;\n"
	"	mul.wide.u32 %rd4, %r1, 4;\n	add.s64 %rd3, %rd3, %rd4;\n"
	"	mov.u32 %r4, 0;\n	mov.u32 %r5, 1;\n	st.volatile.global.u32 [%rd2], %r5;\n"
	"AGAIN:\n	ld.volatile.global.u32 %r6, [%rd1];\n	add.u32 %r6, %r6, 1;\n"
	"	st.volatile.global.u32 [%rd1], %r6;\n	add.u32 %r4, %r4, 1;\n"
	"	ld.volatile.global.u32 %r7, [%rd2+4];\n	setp.eq.u32 %p, %r7, 0;\n	@%p bra AGAIN;\n"
	"	st.global.u32 [%rd3], %r4;\n	ret;\n}\n";

#define THREADS 256
#define STRIDE (65536 / 4)

static void churn(CUfunction f, CUstream s, CUdeviceptr counts, uint32_t *flags)
{
	static uint32_t words[THREADS * STRIDE], often[THREADS];
	CUipcMemHandle handle;
	CUdeviceptr p;
	void *params[] = {&p, &flags, &counts};

	flags[0] = flags[1] = 0;
	assert_int_equal(cuda->cuMemAlloc_v2(&p, sizeof(words)), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD32_v2(p, 0, THREADS * STRIDE), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(f, THREADS / 64, 1, 1, 64, 1, 1, 0, s, params, NULL), CUDA_SUCCESS);
	while (!__atomic_load_n(&flags[0], __ATOMIC_ACQUIRE))
		usleep(100);
	assert_int_equal(cuda->cuIpcGetMemHandle(&handle, p), CUDA_SUCCESS);
	usleep(500);
	__atomic_store_n(&flags[1], 1, __ATOMIC_RELEASE);
	assert_int_equal(cuda->cuStreamSynchronize(s), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(words, p, sizeof(words)), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(often, counts, sizeof(often)), CUDA_SUCCESS);
	for (unsigned int n = 0; n < THREADS; n++)
		assert_int_equal(words[n * STRIDE], often[n]);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
}

/* No store is lost while memory moves. */
static void test_offer_while_kernels_store(void **state)
{
	uint32_t *flags = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr counts;
	CUmodule module;
	CUfunction f;
	CUstream s = stream(CU_STREAM_NON_BLOCKING);

	assert_int_equal(cuda->cuMemHostRegister_v2(flags, 4096, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleLoadData(&module, churn_ptx), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "churn"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&counts, 4 * THREADS), CUDA_SUCCESS);
	for (int round = 0; round < 20; round++)
		churn(f, s, counts, flags);
	assert_int_equal(cuda->cuMemHostUnregister(flags), CUDA_SUCCESS);
	munmap(flags, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_no_descriptors),
		IN_CONTEXT(test_silent_peers),
		IN_CONTEXT(test_other_users),
		IN_CONTEXT(test_opened_memory_counts),
		IN_CONTEXT(test_imported_memory_counts),
		IN_CONTEXT(test_offer_waits_for_nothing),
		IN_CONTEXT(test_offer_while_kernels_store),
		IN_CONTEXT(test_many_records),
	};
	int failed;

	start_peer(); /* before there are threads */
	init_device();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	close(to_peer);
	waitpid(peer_pid, NULL, 0);
	return failed;
}
