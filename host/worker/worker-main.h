/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_WORKER_MAIN_H
#define VCUDA_WORKER_MAIN_H

/* The worker: returns the process's exit status, if at all. */
int vcuda_worker_main(int argc, char **argv);

#endif
