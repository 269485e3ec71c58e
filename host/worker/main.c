/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-worker: the host's side of one guest process. Started by vcudad with the control channel as descriptor 3; ends
 * with the guest process, and everything it held on the GPU ends with it.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "common/descriptors.h"
#include "process/channel-serve.h"
#include "queue/dispatcher.h"
#include "protocol/ipc/layout.h"
#include "common/log.h"
#include "common/trace-point.h"
#include "queue/output.h"
#include "memory/ram.h"
#include "session/session.h"
#include "process/warm.h"
#include "process/worker.h"
#include "sandbox/sandbox.h"

static struct worker_session session;

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda-worker", .with_pid = true};

/* vcudad has started us with it, where it can. */
static void choose_address_layout(char **argv)
{
	const unsigned long layout = VCUDA_WORKER_LAYOUT;
	int now = personality(0xffffffff);

	if (now < 0 || ((unsigned long)now & layout) == layout)
		return;
	if (personality((unsigned long)now | layout) < 0) {
		vcuda_log("cannot choose the address layout (%s): some cudaHostRegister calls of the guest will be "
			  "refused",
			  strerror(errno));
		return;
	}
	execv("/proc/self/exe", argv);
	vcuda_log("cannot run itself again: %s", strerror(errno));
}

/* What vcudad, or an earlier run of this program, asks for. */
static struct {
	enum worker_channel_kind kind;
	int warm_device; /* warm: whose context, -1: none */
	int resume;      /* a descriptor, -1: none */
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
		{"transport", required_argument, NULL, 't'}, {"backend", required_argument, NULL, 'b'},
		{"warm", required_argument, NULL, 'w'},      {"quiet", no_argument, NULL, 'q'},
		{"resume", required_argument, NULL, 'r'},    {"register-ram", no_argument, NULL, 'm'},
		{"sandbox", required_argument, NULL, 's'},   {0},
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
		else if (c != 's' || !worker_sandbox_choose(optarg))
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

/* Memory that is mapped or shared has descriptors of its own. */
static void raise_descriptors(void)
{
	int err = vcuda_descriptors_raise();

	if (err)
		vcuda_log("cannot raise the limit of open files: %s", strerror(-err));
}

static bool enter_sandbox(void)
{
	struct worker_sandbox_needs needs = {.cpu = strcmp(worker_backend, "cuda") != 0,
					     .cuda = strcmp(worker_backend, "cpu") != 0,
					     .libraries = worker_backend_folders()};

	return worker_sandbox_enter(&needs);
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

int main(int argc, char **argv)
{
	if (!parse(argc, argv)) {
		fprintf(stderr,
			"vcuda-worker: started by vcudad: --transport local|virtio|later --backend auto|cuda|cpu, "
			"descriptor %d\n",
			VCUDA_CHANNEL_FD);
		return 2;
	}
	choose_address_layout(argv);
	vcuda_trace_point("worker: starts");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	raise_descriptors();
	if (!enter_sandbox())
		return 1;
	session.doorbell = session.notify = -1;
	if (worker_output_open())
		vcuda_log("what kernels print cannot reach the guest process: %s", strerror(errno));
	session.mappings = worker_mappings = worker_mappings_create();
	session.handles = worker_handles_create();
	if (!session.mappings || !session.handles) {
		vcuda_log("out of memory");
		return 1;
	}
	if (attach() || worker_channel_start(&session))
		return 1;
	worker_dispatcher_serve(&session);
	return 1;
}
