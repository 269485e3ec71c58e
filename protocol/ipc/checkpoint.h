/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-checkpoint: has NVIDIA's driver move the device memory of a worker to the worker's host memory, and back. The
 * worker takes no part. vcudad starts the program for each move, with a pidfd of the worker as descriptor
 * VCUDA_CHECKPOINT_FD, and learns from the exit status how the move went.
 *
 * usage: vcuda-checkpoint release
 *        vcuda-checkpoint restore [FROM TO]
 *
 * FROM, TO: device numbers. The memory on FROM comes back on TO, and that on TO comes back on FROM: the process's
 * devices change places, and keep their numbers for the process.
 */
#ifndef VCUDA_CHECKPOINT_IPC_H
#define VCUDA_CHECKPOINT_IPC_H

#define VCUDA_CHECKPOINT_FD 3

enum vcuda_checkpoint_status {
	VCUDA_CHECKPOINT_DONE,
	VCUDA_CHECKPOINT_REFUSED, /* the driver does not do it, as the log says: nothing has changed */
};

#endif
