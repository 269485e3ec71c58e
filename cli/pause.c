/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda pause`, `vcuda resume` and `vcuda move`. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "control.h"

#define DEFAULT_SECONDS 5
#define MOST_SECONDS 3600
#define POLL_MS 20
#define MOST_GPU 63

struct arguments {
	const char *control, *vm;
	unsigned long seconds;
	unsigned int pid; /* 0: none given */
	int gpu;          /* -1: none given */
	bool release;
};

/* The daemon that serves the processes, and the process in its guest, 0: all. */
struct target {
	char path[108];
	unsigned int pid;
};

static int usage(FILE *out)
{
	fputs("usage: vcuda pause [--release] [--timeout SECONDS] PID\n"
	      "       vcuda pause [--release] [--timeout SECONDS] --vm VM [PID]\n"
	      "       vcuda resume PID\n"
	      "       vcuda resume --vm VM [PID]\n"
	      "       vcuda move --gpu N [--timeout SECONDS] PID\n"
	      "       vcuda move --gpu N [--timeout SECONDS] --vm VM [PID]\n"
	      "\n"
	      "pause lets running CUDA work of a process end and holds back what comes next, until resume. The "
	      "process\n"
	      "goes on, and sees slow calls. Its memory stays on the device. With --vm all processes of the VM are\n"
	      "paused, also those that start later, or, with PID, the process of that number in the guest. Without\n"
	      "--vm PID is a local program, or the worker that `vcuda top` shows. If work does not end in time,\n"
	      "nothing is paused. resume returns when all memory is back. move releases the device memory of a "
	      "process,\n"
	      "as pause --release does, has it come back on another GPU of the same kind, and resumes the process.\n"
	      "\n"
	      "  --gpu N            the GPU to move to, numbered from 0 as CUDA numbers the host's GPUs\n"
	      "  --release          also give the processes' device memory to others: it moves to the host's memory,\n"
	      "                     with the software GPU to a file (vcudad --swap-directory)\n"
	      "  --timeout SECONDS  how long running work may take, 5 unless told\n"
	      "  --control PATH     the daemon whose control socket this is (vcudad --control)\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

static bool parse_number(const char *text, unsigned long most, unsigned long *number)
{
	char *end;

	*number = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && *number <= most;
}

/* 1: go on; 0: help was asked for; -1: a usage error. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = {{"control", required_argument, NULL, 'c'},
						{"vm", required_argument, NULL, 'v'},
						{"release", no_argument, NULL, 'r'},
						{"timeout", required_argument, NULL, 't'},
						{"gpu", required_argument, NULL, 'g'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	unsigned long pid = 0, gpu;
	int option;

	*arguments = (struct arguments){.seconds = DEFAULT_SECONDS, .gpu = -1};
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'c')
			arguments->control = optarg;
		else if (option == 'v')
			arguments->vm = optarg;
		else if (option == 'r')
			arguments->release = true;
		else if (option == 'g' && parse_number(optarg, MOST_GPU, &gpu))
			arguments->gpu = (int)gpu;
		else if (option == 'h')
			return 0;
		else if (option != 't' || !parse_number(optarg, MOST_SECONDS, &arguments->seconds))
			return -1;
	}
	if (argc - optind > 1 || (argc == optind && !arguments->vm) ||
	    (argc > optind && (!parse_number(argv[optind], 0xffffffff, &pid) || !pid)))
		return -1;
	arguments->pid = (unsigned int)pid;
	return 1;
}

/* A local program by its process id, or any process by that of its worker. */
static const struct control_process *find_process(const struct control_daemon *daemon, unsigned int pid)
{
	for (unsigned int i = 0; i < daemon->process_count; i++) {
		const struct control_process *p = &daemon->processes[i];

		if (p->worker == pid || (p->pid == pid && !strcmp(p->kind, "local")))
			return p;
	}
	return NULL;
}

static bool find_target(const struct arguments *arguments, struct target *target)
{
	struct control_daemons found;
	const struct control_daemon *daemon = NULL;
	const struct control_process *process = NULL;

	*target = (struct target){.pid = arguments->pid};
	control_find(&found, arguments->control);
	if (arguments->vm) {
		daemon = control_choose(&found, arguments->vm);
	} else {
		for (unsigned int i = 0; i < found.count && !process; i++) {
			daemon = &found.daemons[i];
			process = find_process(daemon, arguments->pid);
		}
		if (process)
			target->pid = process->pid;
		else
			cli_message("process %u uses no vcudad of this user; see `vcuda top`", arguments->pid);
	}
	if (daemon && (process || arguments->vm))
		snprintf(target->path, sizeof(target->path), "%s", daemon->path);
	control_free(&found);
	return *target->path;
}

static bool request(const struct target *target, const char *what, const char *more)
{
	char line[64], who[16] = "all";
	char *answer;

	if (target->pid)
		snprintf(who, sizeof(who), "%u", target->pid);
	snprintf(line, sizeof(line), "%s %s%s", what, who, more);
	answer = control_request(target->path, line);
	free(answer);
	return answer;
}

/* Prints the reason why a process is not in the wanted state, in the words of vcudad's status. */
static void report(const struct control_process *process, const char *wish)
{
	static const struct {
		const char *word, *why;
	} reasons[] = {
		{"command", "one of its CUDA calls did not end in time (--timeout)"},
		{"device", "its work on the device did not end in time; a kernel or a stream may wait for the process, "
			   "which a pause would stop for ever (--timeout)"},
		{"worker", "its worker does not answer"},
		{"memory", "its worker has no memory for it"},
		{"file", "its memory cannot be written to a file, or read from the file; vcudad --swap-directory names "
			 "the folder (see vcudad's log)"},
		{"host-memory", "the host has too little memory for what it has on the device; vcudad "
				"--max-host-memory may be the limit"},
		{"shared", "it shares memory or events with another process, or a device has access to the memory of "
			   "another one, which --release would lose"},
		{"driver", "NVIDIA's driver does not do it: there is no GPU of that number, or the device has too "
			   "little memory now, for example "
			   "(see vcudad's log)"},
		{"quota", "its memory would exceed the quota of the VM on that GPU (--max-device-memory)"},
		{"checkpoint", "vcuda-checkpoint cannot be started (see vcudad's log)"},
	};
	const char *why = process->pause_failure;

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (!strcmp(process->pause_failure, reasons[i].word))
			why = reasons[i].why;
	cli_message("process %u is not %s: %s", process->pid, wish, why);
}

/* The states of all processes of a pause. A failure counts before a process that is not paused yet. */
struct view {
	bool failed, goes_on;
	unsigned int running; /* a process that is not paused, 0: none */
	unsigned int held;    /* a process that its guest holds, 0: none */
};

static bool is_under_way(const struct control_process *p)
{
	return !strcmp(p->state, "pausing") || !strcmp(p->state, "releasing") || !strcmp(p->state, "restoring") ||
	       !strcmp(p->state, "going-out") || !strcmp(p->state, "out");
}

static void look_at(const struct control_process *p, struct view *view)
{
	if (*p->pause_failure)
		view->failed = true;
	else if (is_under_way(p))
		view->goes_on = true;
	else if (!strcmp(p->state, "running") || !strcmp(p->state, "starting"))
		view->running = p->pid;
	else if (!strcmp(p->state, "locked") || !strcmp(p->state, "checkpointed") || !strcmp(p->state, "detached"))
		view->held = p->pid;
}

/* Looks at each process of the target. False: vcudad does not answer. */
static bool look_at_all(const struct target *target, struct view *view, const char *wish)
{
	struct control_daemons found;
	bool good = control_find(&found, target->path);

	*view = (struct view){0};
	for (unsigned int i = 0; i < found.count; i++)
		for (unsigned int k = 0; k < found.daemons[i].process_count; k++) {
			const struct control_process *p = &found.daemons[i].processes[k];

			if (target->pid && target->pid != p->pid)
				continue;
			look_at(p, view);
			if (*p->pause_failure)
				report(p, wish);
		}
	control_free(&found);
	return good;
}

/* Waits until no process of the target is on its way from one state to another. */
static bool wait_for_target(const struct target *target, struct view *view, const char *wish)
{
	bool good;

	while ((good = look_at_all(target, view, wish)) && !view->failed && view->goes_on)
		usleep(POLL_MS * 1000);
	return good && !view->failed;
}

/* Returns whether all of the target is paused. */
static bool pause_target(const struct arguments *arguments, const struct target *target, bool release)
{
	struct view view;
	char more[32];

	snprintf(more, sizeof(more), " %lu%s", arguments->seconds * 1000, release ? " release" : "");
	if (!request(target, "pause", more) || !wait_for_target(target, &view, "paused"))
		return false;
	if (view.running)
		cli_message("process %u is not paused: it was resumed, or another one could not be paused (see "
			    "vcudad's log)",
			    view.running);
	return !view.running;
}

static bool resume_target(const struct target *target)
{
	struct view view;

	if (!request(target, "resume", "") || !wait_for_target(target, &view, "resumed"))
		return false;
	if (view.held)
		cli_message("process %u does not go on: its guest holds it (cuCheckpointProcessLock)", view.held);
	return true;
}

/* Where the memory cannot come back on the GPU, it comes back where it was. */
static bool move_target(const struct arguments *arguments, const struct target *target)
{
	struct view view;
	char more[16];

	snprintf(more, sizeof(more), " %d", arguments->gpu);
	if (!pause_target(arguments, target, true))
		return false;
	if (request(target, "move", more) && wait_for_target(target, &view, "moved"))
		return true;
	if (resume_target(target))
		cli_message("all goes on with its memory where it was, or where it has moved");
	return false;
}

int cli_pause(int argc, char **argv)
{
	struct arguments arguments;
	struct target target;
	int go = parse(argc, argv, &arguments);

	if (go <= 0 || arguments.gpu >= 0)
		return usage(go ? stderr : stdout);
	return find_target(&arguments, &target) && pause_target(&arguments, &target, arguments.release) ? 0
													: CLI_FAILED;
}

int cli_resume(int argc, char **argv)
{
	struct arguments arguments;
	struct target target;
	int go = parse(argc, argv, &arguments);

	if (go <= 0 || arguments.gpu >= 0)
		return usage(go ? stderr : stdout);
	return find_target(&arguments, &target) && resume_target(&target) ? 0 : CLI_FAILED;
}

int cli_move(int argc, char **argv)
{
	struct arguments arguments;
	struct target target;
	int go = parse(argc, argv, &arguments);

	if (go <= 0 || arguments.gpu < 0 || arguments.release)
		return usage(go ? stderr : stdout);
	return find_target(&arguments, &target) && move_target(&arguments, &target) ? 0 : CLI_FAILED;
}
