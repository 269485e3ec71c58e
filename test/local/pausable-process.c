/* SPDX-License-Identifier: Apache-2.0 */
#include "pausable.h"
#include "protocol/cuda-functions.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void clone_process(void)
{
	static int ends[2];
	char byte;

	if (pipe(ends))
		exit(1);
	if (syscall(SYS_fork) == 0) {
		close(ends[1]);
		if (read(ends[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(ends[0]);
}

/* Any thread may log. */
static void ask_for_memory(void *context, CUlogLevel level, char *message, size_t length)
{
	size_t free_bytes, total;

	if (cuCtxPushCurrent_v2(context))
		exit(3);
	cuMemGetInfo_v2(&free_bytes, &total);
	cuCtxPopCurrent_v2(NULL);
}

void listen_to_log(void)
{
	CUlogsCallbackHandle handle;
	CUcontext context;

	if (cuCtxGetCurrent(&context) || cuLogsRegisterCallback(ask_for_memory, context, &handle))
		exit(3);
}

/* All threads that make CUDA calls may wait meanwhile. */
static void fill(int signal)
{
	while (open("/", O_RDONLY | O_CLOEXEC) >= 0)
		;
	if (write(STDOUT_FILENO, "full\n", 5) < 0)
		_exit(1);
}

void fill_when_told(void)
{
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = fill, .sa_flags = SA_RESTART}, NULL);
}

static volatile sig_atomic_t taken, passed_on;

/* The restore thread takes some signals first and sends them again, with another code than kill() has. */
static void take(int signal, siginfo_t *info, void *unused)
{
	taken++;
	passed_on += info->si_code == SI_QUEUE;
}

static void *take_signals(void *unused)
{
	sigset_t none;

	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	for (;;)
		pause();
	return unused;
}

void block_signal(void)
{
	sigset_t set;

	sigaction(SIGRTMAX - 1, &(struct sigaction){.sa_sigaction = take, .sa_flags = SA_RESTART | SA_SIGINFO}, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMAX - 1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void begin_to_take(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, take_signals, NULL))
		exit(1);
}

void count_taken(int counts[2])
{
	counts[0] = taken;
	counts[1] = passed_on;
}

static const char restore_thread[] = "cuda-restore";
static char name_file[300];

static void write_name(const char *name)
{
	int fd = open(name_file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, name, strlen(name)) < 0)
		_exit(1);
	close(fd);
}

static void hide_or_show(int signal)
{
	static int hidden;

	hidden = !hidden;
	write_name(hidden ? "hidden" : restore_thread);
}

void hide_restore_thread(void)
{
	DIR *threads = opendir("/proc/self/task");
	char name[32] = "";
	struct dirent *entry;

	while (strncmp(name, restore_thread, strlen(restore_thread)) && (entry = readdir(threads))) {
		int fd;

		snprintf(name_file, sizeof(name_file), "/proc/self/task/%s/comm", entry->d_name);
		fd = open(name_file, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, name, sizeof(name)) < 0)
			exit(1);
		if (fd >= 0)
			close(fd);
	}
	closedir(threads);
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = hide_or_show, .sa_flags = SA_RESTART}, NULL);
}
