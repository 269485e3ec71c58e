/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of vcudaProfile is rows of four words, one for each kind of command that the worker has run. Only commands
 * count that ran while the control page's `profile` was set. No command has kind 0: that row is the ring's, sampled
 * each time the worker took a command.
 */
#ifndef VCUDA_PROFILE_H
#define VCUDA_PROFILE_H

enum vcuda_profile_word {
	VCUDA_PROFILE_OP,
	VCUDA_PROFILE_COUNT,
	VCUDA_PROFILE_SUM,  /* ns in the back end; of the ring, bytes that were in it */
	VCUDA_PROFILE_MOST, /* limit for one command; limit for the ring at a time */
	VCUDA_PROFILE_WORDS
};

#endif
