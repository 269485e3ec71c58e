/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NCCL's interface that nccl-bench and test/gpu/nccl-killed.c call, found at run time. Names, values and
 * layouts are those of NCCL 2's documentation; 0 is success.
 */
#ifndef BENCH_NCCL_H
#define BENCH_NCCL_H

#include "driver.h"

enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };

typedef struct {
	char internal[128];
} ncclUniqueId;

typedef struct ncclComm *ncclComm_t;

#define NCCL_FUNCTIONS(X)                                                                                              \
	X(int, ncclGetUniqueId, (ncclUniqueId * id))                                                                   \
	X(int, ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))                            \
	X(int, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *part, void *config))                   \
	X(int, ncclCommGetAsyncError, (ncclComm_t comm, int *error))                                                   \
	X(int, ncclCommAbort, (ncclComm_t comm))                                                                       \
	X(int, ncclCommDestroy, (ncclComm_t comm))                                                                     \
	X(const char *, ncclGetErrorString, (int result))                                                              \
	X(const char *, ncclGetLastError, (ncclComm_t comm))                                                           \
	X(int, ncclGroupStart, (void))                                                                                 \
	X(int, ncclGroupEnd, (void))                                                                                   \
	X(int, ncclAllReduce, (const void *send, void *recv, size_t count, int type, int op, ncclComm_t, CUstream))    \
	X(int, ncclAllGather, (const void *send, void *recv, size_t sent, int type, ncclComm_t, CUstream))             \
	X(int, ncclReduceScatter,                                                                                      \
	  (const void *send, void *recv, size_t received, int type, int op, ncclComm_t, CUstream))                     \
	X(int, ncclBroadcast, (const void *send, void *recv, size_t count, int type, int root, ncclComm_t, CUstream))  \
	X(int, ncclSend, (const void *send, size_t count, int type, int peer, ncclComm_t, CUstream))                   \
	X(int, ncclRecv, (void *recv, size_t count, int type, int peer, ncclComm_t, CUstream))

#define NCCL_DECLARE(result, name, parameters) extern result(*name) parameters;
NCCL_FUNCTIONS(NCCL_DECLARE)
#undef NCCL_DECLARE

/* Loads `file`, such as libnccl.so.2. Ends the program with a message where that fails. */
void nccl_open(const char *file);

/* Ends the program with NCCL's own words where `result` is an error. `comm` may be NULL. */
void nccl_check(int result, ncclComm_t comm, const char *what);

#endif
