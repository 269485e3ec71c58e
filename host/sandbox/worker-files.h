/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a worker may reach. One list serves two layers of the sandbox: the worker gives the files to Landlock
 * (files.c), and vcudad makes the worker's view of the file system of them (host/daemon/worker/view.c).
 */
#ifndef VCUDA_WORKER_FILES_H
#define VCUDA_WORKER_FILES_H

#include <stdbool.h>

enum worker_file_kind {
	WORKER_FILE_LIBRARY, /* libraries: to read, and to map as code */
	WORKER_FILE_PROGRAM, /* the worker's program, its loader, perhaps the keeper: to run too */
	WORKER_FILE_DATA,    /* to read */
	WORKER_FILE_PROC,    /* in /proc, about the machine: to read */
	WORKER_FILE_SELF,    /* in /proc, about the process that asks: to read */
	WORKER_FILE_THREADS, /* the same of its threads: to write too */
	WORKER_FILE_DEVICE,
	WORKER_FILE_KEEP,    /* a folder that outlives the worker: to make and remove files */
	WORKER_FILE_SHARED,  /* the same, of memory that processes share */
	WORKER_FILE_SERVICE, /* the same, with sockets and pipes of NVIDIA's MPS */
	WORKER_FILE_SOCKET,  /* to connect to */
	WORKER_FILE_KINDS
};

struct worker_file {
	enum worker_file_kind kind;
	bool needed;       /* a worker whose user may not use the file does not work */
	const char *path;  /* location of the file, if it exists; perhaps relative */
	const char *place; /* path in the worker's view, absolute and without "." and ".." */
};

struct worker_file_needs {
	bool cpu, cuda;                 /* the back ends that may be loaded */
	bool links;                     /* also the files that folders of libraries link to */
	const char *program;            /* the worker's */
	const char *keeper;             /* the keeper's program, which may be started in the view; NULL: none */
	const char *const *libraries;   /* worker_library_folders() */
	const char *const *environment; /* the worker's */
};

/*
 * Calls `visit` for each file, also for those that are missing, until a call returns another value than 0, which is the
 * result. Makes the folders of kind WORKER_FILE_KEEP.
 */
int worker_files_visit(const struct worker_file_needs *needs,
		       int (*visit)(void *context, const struct worker_file *file), void *context);

/*
 * The folders, each with a slash at its end, where the worker looks for libraries of ours, by the path of its program.
 * NULL ends the list. The list is valid until the next call. Not thread-safe.
 */
const char *const *worker_library_folders(const char *program);

#endif
