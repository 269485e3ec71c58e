/* SPDX-License-Identifier: Apache-2.0 */
/* Calls beside a stream capture, and what they need. */
#ifndef TEST_LOCAL_API_CAPTURE_H
#define TEST_LOCAL_API_CAPTURE_H

#include "test/local/api.h"

/* Made once, for all calls. */
struct capture_has {
	CUcontext context;
	CUstream quiet, blocking; /* neither captures */
	CUevent event;
	CUdeviceptr memory, managed;
	CUmodule module;
	CUgraph graph;
	CUgraphExec exec;
	CUmemoryPool pool;
	CUfunction function;
	char *host;
};

extern struct capture_has has;

struct beside {
	const char *name;
	CUresult (*call)(void);
	bool is_unsafe;
	void (*make)(void);  /* before the capture */
	void (*use)(void);   /* after a refusal; then the call ends it */
	void (*clear)(void); /* undoes the effects of the call */
};

extern const struct beside capture_calls[];
extern const size_t capture_call_count;

extern const char capture_ptx[]; /* k() */

#endif
