/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-worker: the host's side of one guest process. Started by vcudad with the control channel as descriptor 3; ends
 * with the guest process, and everything it held on the GPU ends with it.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "common/descriptors.h"
#include "process/channel-serve.h"
#include "queue/dispatcher.h"
#include "queue/gate.h"
#include "protocol/ipc/layout.h"
#include "common/log.h"
#include "common/start-thread.h"
#include "common/trace-point.h"
#include "memory/mapper.h"
#include "queue/output.h"
#include "memory/ram.h"
#include "session/destroy.h"
#include "session/figure.h"
#include "session/session.h"
#include "process/warm.h"
#include "process/worker.h"
#include "worker-main.h"
#include "host/sandbox/sandbox.h"

static struct worker_session session;

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda-worker", .with_pid = true};

/* vcudad has started us with it, where it can. */
static void choose_address_layout(char **argv)
{
	int now = personality(0xffffffff);
	struct rlimit stack;

	if (now < 0 || now & ADDR_NO_RANDOMIZE)
		return;
	if (personality((unsigned long)now | vcuda_worker_layout(&stack)) < 0) {
		vcuda_log("cannot choose the address layout (%s): some cudaHostRegister calls of the guest will be "
			  "refused",
			  strerror(errno));
		return;
	}
	execv("/proc/self/exe", argv);
	vcuda_log("cannot run itself again: %s", strerror(errno));
}

/* The limit of the stack has served to choose a place, and is the size of each thread's stack else. */
static void choose_stack_size(void)
{
	struct rlimit stack;
	pthread_attr_t attributes;

	if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur == RLIM_INFINITY ||
	    stack.rlim_cur < VCUDA_WORKER_STACK_LIMIT)
		return;
	stack.rlim_cur = VCUDA_WORKER_STACK_BYTES;
	setrlimit(RLIMIT_STACK, &stack);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, VCUDA_WORKER_STACK_BYTES);
	pthread_setattr_default_np(&attributes);
	pthread_attr_destroy(&attributes);
}

/* The heap would grow behind the program, at a known address. A page behind the program makes malloc() use mmap(). */
static void move_heap(void)
{
	uintptr_t end = ((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095;

	mmap((void *)end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/* The options that vcudad, or an earlier run of this program, has given. */
static struct {
	enum worker_channel_kind kind;
	int warm_device; /* warm: whose context, -1: none */
	int resume;      /* a descriptor, -1: none */
	bool mapper;
} wanted = {.warm_device = -1, .resume = -1};

static bool is_one_of(const char *text, const char *const list[])
{
	for (; *list; list++)
		if (!strcmp(text, *list))
			return true;
	return false;
}

static bool parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"transport", required_argument, NULL, 't'},   {"backend", required_argument, NULL, 'b'},
		{"warm", required_argument, NULL, 'w'},        {"quiet", no_argument, NULL, 'q'},
		{"resume", required_argument, NULL, 'r'},      {"register-ram", no_argument, NULL, 'm'},
		{"sandbox", required_argument, NULL, 's'},     {"mapper", no_argument, NULL, 'p'},
		{"nvml-host-figures", no_argument, NULL, 'f'}, {0},
	};
	const char *transport = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 't')
			transport = optarg;
		else if (c == 'b')
			worker_backend = optarg;
		else if (c == 'w')
			wanted.warm_device = atoi(optarg);
		else if (c == 'q')
			vcuda_log_quiet(true);
		else if (c == 'r')
			wanted.resume = atoi(optarg);
		else if (c == 'm')
			worker_ram_want();
		else if (c == 'p')
			wanted.mapper = true;
		else if (c == 'f')
			worker_figures_allow();
		else if (c != 's' || !sandbox_choose(optarg))
			return false;
	}
	if (optind != argc || !transport ||
	    !is_one_of(transport, (const char *const[]){"local", "virtio", "later", NULL}))
		return false;
	wanted.kind = !strcmp(transport, "local")    ? WORKER_CHANNEL_LOCAL
		      : !strcmp(transport, "virtio") ? WORKER_CHANNEL_VIRTIO
						     : WORKER_CHANNEL_WARM;
	return is_one_of(worker_backend, (const char *const[]){"auto", "cuda", "cpu", NULL});
}

/* Only the mapper of a VM's worker gets the VM's RAM. */
static bool start_mapper(void)
{
	int err = wanted.mapper ? worker_mapper_start() : 0;

	if (err)
		vcuda_log("cannot start the mapper of guest memory: %s", strerror(-err));
	return !err;
}

/* Memory that is mapped or shared has descriptors of its own. */
static void raise_descriptors(void)
{
	int err = vcuda_descriptors_raise();

	if (err)
		vcuda_log("cannot raise the limit of open files: %s", strerror(-err));
}

static bool enter_sandbox(void)
{
	struct sandbox_needs needs = {.cpu = strcmp(worker_backend, "cuda") != 0,
					     .cuda = strcmp(worker_backend, "cpu") != 0,
					     .libraries = worker_backend_folders()};

	if (!sandbox_enter(&needs))
		return false;
	vcuda_trace_point("worker: sandbox has its first stage");
	return true;
}

static int attach(void)
{
	int err;

	if (wanted.resume >= 0)
		return worker_channel_resume(&session, wanted.kind, wanted.resume);
	if (wanted.kind == WORKER_CHANNEL_WARM)
		worker_warm_start(wanted.warm_device);
	err = worker_channel_attach(&session, wanted.kind);
	/* Not by exit(), which would take the driver away from the thread that loads it. */
	if (err && wanted.kind == WORKER_CHANNEL_WARM)
		_exit(err == -ECONNRESET ? 0 : 1);
	return err;
}

/* Serves on a thread, whose stack is at a random address. */
static void *serve(void *unused)
{
	worker_dispatcher_serve(&session);
	return unused;
}

static void *serve_gate(void *unused)
{
	worker_gate_serve(&session);
	return unused;
}

/* Before there is a guest process: a pause does not wait for it. */
static bool start_gate(void)
{
	bool started = vcuda_thread_start_before_fork(serve_gate, NULL);

	if (!started)
		vcuda_log("cannot start a thread");
	return started;
}

static bool prepare(void)
{
	vcuda_trace_point("worker: starts");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	raise_descriptors();
	return enter_sandbox() && start_mapper();
}

static bool make_session(void)
{
	session.doorbell = session.notify = -1;
	if (worker_output_open())
		vcuda_log("what kernels print cannot reach the guest process: %s", strerror(errno));
	session.mappings = worker_mappings = worker_mappings_create();
	session.handles = worker_handles_create();
	if (session.mappings && session.handles && worker_destroy_start())
		return true;
	vcuda_log("out of memory");
	return false;
}

__attribute__((visibility("default"))) int vcuda_worker_main(int argc, char **argv)
{
	pthread_t thread;

	choose_stack_size();
	move_heap();
	if (!parse(argc, argv)) {
		fprintf(stderr,
			"vcuda-worker: started by vcudad: --transport local|virtio|later --backend auto|cuda|cpu, "
			"descriptor %d\n",
			VCUDA_CHANNEL_FD);
		return 2;
	}
	choose_address_layout(argv);
	if (!prepare() || !make_session() || !start_gate() || attach() || worker_channel_start(&session))
		return 1;
	if (!pthread_create(&thread, NULL, serve, NULL))
		pthread_join(thread, NULL);
	return 1;
}
