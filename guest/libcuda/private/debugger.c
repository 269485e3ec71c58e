/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports for CUDA debuggers. Debuggers find them by name in a process's symbol table, write some of the
 * data, and set breakpoints on the two functions that report errors. No debugger is served here: the data stays as a
 * debugger leaves it, and the functions of the debugger's interface answer CUDBG_ERROR_NOT_SUPPORTED.
 *
 * Sizes and zeros are those of NVIDIA's driver (test/unit/exports/libcuda.so.1.txt).
 */
#include <stdatomic.h>
#include <stdint.h>

#include "common/log.h"

#define PUBLIC __attribute__((visibility("default")))
#define NOT_SUPPORTED 0x2e

#define WORD(name) PUBLIC uint32_t name
#define LONG(name) PUBLIC uint64_t name

/* A debugger writes these about itself. */
WORD(cudbgApiClientPid);
WORD(cudbgApiClientRevision);
WORD(cudbgDebuggerCapabilities);
WORD(cudbgEnableIntegratedMemcheck);
WORD(cudbgEnableLaunchBlocking);
WORD(cudbgEnablePreemptionDebugging);
PUBLIC char cudbgInjectionPath[4096];
WORD(cudbgIpcFlag);
WORD(cudbgReportDriverApiErrorFlags);
WORD(cudbgRpcEnabled);
WORD(cudbgSessionId);

/* NVIDIA's driver writes these for a debugger. */
WORD(cudbgAttachHandlerAvailable);
WORD(cudbgDebuggerInitialized);
WORD(cudbgDetachSuspendedDevicesMask);
LONG(cudbgReportedDriverApiErrorCode);
LONG(cudbgReportedDriverApiErrorFuncNameAddr);
LONG(cudbgReportedDriverApiErrorFuncNameSize);
LONG(cudbgReportedDriverInternalErrorCode);
WORD(cudbgResumeForAttachDetach);
WORD(cudbgUseExternalDebugger);

/* Places for breakpoints. */
PUBLIC void cudbgReportDriverApiError(void);
PUBLIC void cudbgReportDriverInternalError(void);

void cudbgReportDriverApiError(void)
{
}

void cudbgReportDriverInternalError(void)
{
}

/* Each says so once a process. */
#define REFUSE(name)                                                                                                   \
	PUBLIC int name(void);                                                                                         \
	int name(void)                                                                                                 \
	{                                                                                                              \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                            \
                                                                                                                       \
		if (!atomic_flag_test_and_set(&said))                                                                  \
			vcuda_log(#name " is not supported: no CUDA debugger is served here");                         \
		return NOT_SUPPORTED;                                                                                  \
	}

REFUSE(cudbgApiAttach)
REFUSE(cudbgApiDetach)
REFUSE(cudbgApiInit)
REFUSE(cudbgGetAPI)
REFUSE(cudbgGetAPIVersion)
REFUSE(cudbgMain)
