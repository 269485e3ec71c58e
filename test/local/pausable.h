/* SPDX-License-Identifier: Apache-2.0 */
/* Processes in which a checkpoint is not easy, for pausable.c. A failure ends the program. */
#ifndef VCUDA_TEST_PAUSABLE_H
#define VCUDA_TEST_PAUSABLE_H

/* A child of which the C library knows nothing, and that ends with its parent. */
void clone_process(void);

/*
 * Before CUDA is used, and after that: one thread takes SIGRTMAX - 1, and all others have it blocked. The kernel asks
 * older threads first whether they want a signal.
 */
void block_signal(void);
void begin_to_take(void);

/* Registers a function for the log, which makes a CUDA call for each line. */
void listen_to_log(void);

/* From now on SIGUSR2 has the process open as many files as it may, and prints "full". */
void fill_when_told(void);

/* How often it was taken, and how often the restore thread had taken it before. */
void count_taken(int counts[2]);

/* From now on each SIGUSR2 gives the restore thread another name, or its own one. */
void hide_restore_thread(void);

#endif
