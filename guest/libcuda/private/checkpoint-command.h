/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's `cuda-checkpoint`: the program is a few lines that pass its arguments to the driver. All options and all
 * output are the driver's. The options are those of the program's README.
 */
#ifndef VCUDA_CHECKPOINT_COMMAND_H
#define VCUDA_CHECKPOINT_COMMAND_H

/* Returns the program's exit status. Writes the answer to standard output, mistakes to standard error. */
int libcuda_checkpoint_command(int argc, char **argv);

#endif
