/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/descriptors.h"
#include "vm.h"

void cli_message(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	fputs("vcuda: ", stderr);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	va_end(values);
}

static int help(void)
{
	puts("usage: vcuda COMMAND ...\n"
	     "\n"
	     "Runs CUDA programs on virtio-cuda, and shows and controls the daemons that serve them.\n"
	     "\n"
	     "  run [--backend auto|cuda|cpu] [--trace] [--stats] [--profile FILE] [--] PROGRAM [ARGUMENT...]\n"
	     "        runs a CUDA program of this machine on virtio-cuda, without a VM\n"
	     "  vm run [--backend auto|cuda|cpu] [--image FILE] [--cpus N] [--memory SIZE] [--trace] [--stats] [--] "
	     "PROGRAM "
	     "[ARGUMENT...]\n"
	     "        boots a VM that sees this machine's files, or those of an image, and runs the program in it\n"
	     "  vm list [--json], vm kill VM [PROCESS], vm set VM QUOTA=VALUE\n"
	     "        shows the daemons of this user; ends guest processes; changes quotas\n"
	     "  vm exports [--json] VM, vm free VM [USER]\n"
	     "        shows, and frees, exported memory whose processes have ended\n"
	     "  vm init [--module FILE.ko] IMAGE\n"
	     "        puts driver and libraries into the disk of a VM\n"
	     "  vm xml [--socket PATH] [--image FILE] ... NAME\n"
	     "        prints the libvirt domain of a VM with a virtual GPU\n"
	     "  top [--once] [--json]\n"
	     "        shows VMs and guest processes, what they use of their quotas, and refusals\n"
	     "  metrics [--listen PORT|PATH]\n"
	     "        prints the same for Prometheus, or answers its requests\n"
	     "  pause [--timeout SECONDS] PID, pause --vm VM, resume PID, resume --vm VM\n"
	     "        holds back the CUDA work of a process, or of a VM, and lets it go on\n"
	     "  move --gpu N PID, move --gpu N --vm VM\n"
	     "        moves the device memory of a process, or of a VM, to another GPU\n"
	     "  bench [--quick] [--only GROUP,...] [--json FILE] [--from FILE] [--plots DIR] ...\n"
	     "        times programs natively and on virtio-cuda, side by side; draws what was saved\n"
	     "  profile summary FILE\n"
	     "        tables of kernels, copies and calls that `run --profile FILE` has recorded\n"
	     "  ptx FILE [KERNEL]\n"
	     "        prints the PTX that the software GPU makes of a cubin's machine code\n"
	     "  smi [-L | -q | --query-gpu=FIELD,... --format=csv] [-l SECONDS]\n"
	     "        shows devices, their memory and the processes that compute, as nvidia-smi does\n"
	     "  cache info, cache build PROGRAM [ARGUMENT...], cache export FILE, cache import FILE\n"
	     "        shows and fills the cache of kernels that the software GPU has compiled\n"
	     "  cdi generate [--output FILE] [--socket PATH] [--device NAME=SOCKET]...\n"
	     "        describes virtual GPUs to podman, Docker and containerd\n"
	     "  config check [FILE...], config show [FILE]\n"
	     "        checks and shows configuration files of daemons\n"
	     "  doctor\n"
	     "        says what these need, what is missing, and how to mend it\n"
	     "  help, --version");
	return 0;
}

static bool is_named(const char *called, const char *name)
{
	const char *slash = called ? strrchr(called, '/') : NULL;

	return called && !strcmp(slash ? slash + 1 : called, name);
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	struct cli_paths paths;

	/* A program that `vcuda run` starts has the same descriptors as without it. */
	vcuda_descriptors_standard(false);
	cli_paths_find(&paths);
	/* Containers have the command under this name (describe/cdi.c). */
	if (is_named(argv[0], "nvidia-smi"))
		return cli_smi(&paths, argc, argv);
	if (!strcmp(command, "run"))
		return cli_run(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "bench"))
		return cli_bench(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "profile"))
		return cli_profile(argc - 1, argv + 1);
	if (!strcmp(command, "ptx"))
		return cli_ptx(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "smi"))
		return cli_smi(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "top"))
		return cli_top(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "metrics"))
		return cli_metrics(argc - 1, argv + 1);
	if (!strcmp(command, "pause"))
		return cli_pause(argc - 1, argv + 1);
	if (!strcmp(command, "resume"))
		return cli_resume(argc - 1, argv + 1);
	if (!strcmp(command, "move"))
		return cli_move(argc - 1, argv + 1);
	if (!strcmp(command, "cache"))
		return cli_cache(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "cdi"))
		return cli_cdi(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "config"))
		return cli_config(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "doctor"))
		return cli_doctor(&paths, argc - 1, argv + 1);
	if (!strcmp(command, "vm")) {
		setenv("VCUDA_GUEST_LIB", paths.guest_lib, 1);
		setenv("VCUDA_DAEMON", paths.daemon, 1);
		setenv("VCUDA_SCRIPTS", paths.scripts, 1);
		return cli_vm(argc - 1, argv + 1);
	}
	if (!strcmp(command, "--version") || !strcmp(command, "version")) {
		puts("vcuda " VCUDA_VERSION);
		return 0;
	}
	if (!strcmp(command, "help") || !strcmp(command, "--help") || !strcmp(command, "-h"))
		return help();
	if (*command)
		cli_message("'%s' is not a command; see `vcuda help`", command);
	else
		cli_message("which command? See `vcuda help`");
	return CLI_FAILED;
}
