/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of a program's device code, filled by its start-up code: fatbins, and the host addresses of their
 * kernels and variables. Registering only records; a fatbin is loaded when one of its symbols is first used.
 */
#ifndef CUDART_REGISTER_H
#define CUDART_REGISTER_H

#include "symbol-table.h"

/*
 * The kernel that the program knows by a host address: cudaErrorInvalidDeviceFunction if nothing is registered there or
 * the image for this device has no such kernel, else the error of loading the fatbin.
 */
cudaError_t cudart_kernel(const void *host, CUkernel *kernel);

/*
 * For launches: as cudart_kernel(), but an address that is not registered counts as the handle of a kernel (CUkernel or
 * CUfunction), which the API also allows. The driver refuses any other value.
 */
cudaError_t cudart_launchable(const void *host_or_handle, CUfunction *function);

/* The same for calls that need a kernel. *is_handle (may be NULL) is true if the address is not registered. */
cudaError_t cudart_kernel_or_handle(const void *host_or_handle, CUkernel *kernel, bool *is_handle);

/* The name under which a host function is registered, else NULL. Valid until its fatbin is unregistered. */
const char *cudart_kernel_name(const void *host);

/* A device variable: cudaErrorInvalidSymbol if nothing is registered there. Needs a current context. */
cudaError_t cudart_symbol_address(const void *host, CUdeviceptr *address, size_t *bytes);

/* ---- for other objects that start-up code registers ---- */

/* Ends the process where there is no memory: the program could not be told. */
struct symbol *cudart_add_symbol(void **handle, const void *host, const char *name, enum symbol_kind kind);

/* In the current context, the module that the reference is a variable of. */
cudaError_t cudart_reference_module(struct symbol *symbol, CUmodule *module);

#endif
