/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of the worker's library. */
#ifndef VCUDA_WORKER_MAIN_H
#define VCUDA_WORKER_MAIN_H

/* Runs the worker. Returns the process's exit status, or does not return. */
int vcuda_worker_main(int argc, char **argv);

#endif
