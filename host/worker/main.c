/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-worker: the host's side of one guest process. Started by vcudad with the control channel as descriptor 3; ends with the guest
 * process, and everything it held on the GPU ends with it.
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

#include "channel.h"
#include "channel-serve.h"
#include "lane.h"
#include "log.h"
#include "output.h"
#include "session.h"
#include "worker.h"

static struct vcuda_session session;

const char *vcuda_worker_backend = "auto";

/*
 * Guest memory is mapped here at the guest's own addresses. Guests live high (mmap grows down from the stack); with the old layout and no
 * randomisation our own libraries lie far below, where no guest is. The thread sanitizer has its shadow there.
 */
static void choose_address_layout(char **argv)
{
#ifdef __SANITIZE_THREAD__
	const unsigned long wanted = ADDR_NO_RANDOMIZE;
#else
	const unsigned long wanted = ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE;
#endif
	int now = personality(0xffffffff);

	if (now < 0 || ((unsigned long)now & wanted) == wanted)
		return;
	if (personality((unsigned long)now | wanted) < 0) {
		vcuda_log("cannot choose the address layout (%s): some cudaHostRegister calls of the guest will be refused",
			  strerror(errno));
		return;
	}
	execv("/proc/self/exe", argv);
	vcuda_log("cannot run itself again: %s", strerror(errno));
}

static bool parse(int argc, char **argv, bool *local)
{
	static const struct option options[] = {
		{"transport", required_argument, NULL, 't'},
		{"backend", required_argument, NULL, 'b'},
		{0},
	};
	const char *transport = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 't')
			transport = optarg;
		else if (c == 'b')
			vcuda_worker_backend = optarg;
		else
			return false;
	}
	if (optind != argc || !transport || (strcmp(transport, "local") && strcmp(transport, "virtio")))
		return false;
	*local = !strcmp(transport, "local");
	return !strcmp(vcuda_worker_backend, "auto") || !strcmp(vcuda_worker_backend, "cuda") || !strcmp(vcuda_worker_backend, "cpu");
}

/* Memory that is mapped or shared has descriptors of its own. The usual soft limit is for users of select(). */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit))
			vcuda_log("cannot raise the limit of open files: %s", strerror(errno));
	}
}

int main(int argc, char **argv)
{
	bool local;

	if (!parse(argc, argv, &local)) {
		fprintf(stderr, "vcuda-worker: started by vcudad: --transport local|virtio --backend auto|cuda|cpu, descriptor %d\n",
			VCUDA_CHANNEL_FD);
		return 2;
	}
	choose_address_layout(argv);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	raise_descriptors();
	session.doorbell = session.notify = -1;
	if (vcuda_output_open())
		vcuda_log("what kernels print cannot reach the guest process: %s", strerror(errno));
	session.windows = vcuda_windows_create();
	session.handles = vcuda_handles_create();
	if (!session.windows || !session.handles) {
		vcuda_log("out of memory");
		return 1;
	}
	if (vcuda_channel_attach(&session, local) || vcuda_channel_start(&session))
		return 1;
	vcuda_lane_serve(&session);
	return 1;
}
