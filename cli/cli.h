/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `vcuda` command: one file a subcommand (run.c, vm.c, bench.c, smi/smi.c, top.c, doctor.c), and what they share.
 *
 * Exit status: the program's, 128 + N where signal N ended it; 126 and 127 as shells do; 125 where vcuda itself
 * failed. The command has one thread, but for the one of cli_check, which only relays text.
 */
#ifndef VCUDA_CLI_H
#define VCUDA_CLI_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define CLI_FAILED 125

/* Where the parts are: in the build tree of this program, or in its installation. The named variable
 * overrides. */
struct cli_paths {
	char self[PATH_MAX];      /* this program, without a symbolic link; "": not known */
	char directory[PATH_MAX]; /* the folder of `self`, or "." */
	char guest_lib[PATH_MAX]; /* VCUDA_GUEST_LIB: libcuda.so.1 and libcudart of the guest */
	char daemon[PATH_MAX];    /* VCUDA_DAEMON */
	char worker[PATH_MAX];
	char backend_cpu[PATH_MAX];
	char scripts[PATH_MAX]; /* VCUDA_SCRIPTS */
	char bench[PATH_MAX];   /* VCUDA_BENCH: the scripts of `vcuda bench` */
	char bench_programs[PATH_MAX];
};

void cli_paths_find(struct cli_paths *paths);

/* Prints "vcuda: ..." and a line end to standard error. */
void cli_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Each with argv[0] its own name; returns the exit status. */
int cli_run(const struct cli_paths *paths, int argc, char **argv);
int cli_bench(const struct cli_paths *paths, int argc, char **argv);
int cli_cache(const struct cli_paths *paths, int argc, char **argv);
int cli_cdi(const struct cli_paths *paths, int argc, char **argv);
int cli_ptx(const struct cli_paths *paths, int argc, char **argv);
int cli_smi(const struct cli_paths *paths, int argc, char **argv);
int cli_top(const struct cli_paths *paths, int argc, char **argv);
int cli_metrics(int argc, char **argv);
int cli_profile(int argc, char **argv);
int cli_config(const struct cli_paths *paths, int argc, char **argv);
int cli_pause(int argc, char **argv);
int cli_resume(int argc, char **argv);
int cli_move(int argc, char **argv);
int cli_doctor(const struct cli_paths *paths, int argc, char **argv);

/* The program that wrote a profile to the file has ended: so does the JSON array. Says so if there are no events. */
void cli_profile_end(const char *path);

/* ---- elf.c ---- */

/* The file that execvp(name) would run; false with errno set. */
bool cli_program_find(const char *name, char *path, size_t size);

/*
 * Calls with the path of each library of the guest that programs name, libcuda.so.1 last, until one call returns false.
 * Returns what the last one did.
 */
bool cli_each_library(const struct cli_paths *paths, bool (*call)(const char *path));

/* True if the program is Python, or a script for Python. */
bool cli_is_python(const char *path);

/* True if the program has a DT_RPATH, which the loader obeys before LD_LIBRARY_PATH. */
bool cli_has_rpath(const char *path);

/* True if the program is linked with musl, whose loader does not load our libraries. */
bool cli_is_musl(const char *path);

/*
 * Whether the program is to find our libraries that NVIDIA has of the same names, in math/ of the guest's and after all
 * other folders. Not where its DT_RUNPATH, which comes after LD_LIBRARY_PATH, has NVIDIA's, or with VCUDA_MATH=0.
 */
bool cli_wants_math(const char *path);

/* ---- check.c ---- */

/* The exit status of `vcuda run --check` where the program succeeds and kernels had faults. */
#define CLI_CHECK_FAULTS 1

struct cli_check {
	FILE *in, *out;
	int terminal; /* standard error as it was */
	int done[2];  /* a pipe: something to read once all is passed on */
	pthread_t thread;
	unsigned long long faults;
};

/*
 * Until cli_check_started(), processes that are started have a standard error whose lines are counted and passed on.
 * False: a message says why not.
 */
bool cli_check_begin(struct cli_check *check);
void cli_check_started(const struct cli_check *check);

/* Waits until what the daemon and its workers said is printed. cli_check_end() does so as well. */
void cli_check_wait(struct cli_check *check);

/* After the daemon's end: prints how many faults there were, and returns the exit status in the place of `status`. */
int cli_check_end(struct cli_check *check, int status);

/* ---- daemon.c ---- */

struct cli_daemon {
	pid_t pid;
	char directory[256], socket[300];
};

/* The socket of a daemon that listens for programs of this user, or false. */
bool cli_socket_find(char *path, size_t size);
bool cli_is_listening(const char *path);

/* Starts a vcudad of our own in a new directory that only this user can enter, and a worker, with a context if the
 * program that it is for computes; sandbox: the daemon's option, NULL: its default. Prints a message when it returns
 * false.
 */
bool cli_daemon_start(struct cli_daemon *daemon, const struct cli_paths *paths, const char *backend, bool computes,
		      const char *sandbox);

/* Whether the daemon's --sandbox knows it. */
bool cli_is_sandbox(const char *mode);

/*
 * For the daemon's --warm-device: the device that a program with our environment begins with, or "none" where that is
 * not told by a number.
 */
void cli_warm_device(char *text, size_t size);
void cli_daemon_stop(struct cli_daemon *daemon);

#endif
