/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of vcudaProfile: rows of four words, one for each kind of command that the worker has run while the
 * control page's `profile` was set. The row of kind 0, which no command has, is that of the ring, as the worker found
 * it each time it took a command.
 */
#ifndef VCUDA_PROFILE_H
#define VCUDA_PROFILE_H

enum vcuda_profile_word {
	VCUDA_PROFILE_OP,
	VCUDA_PROFILE_COUNT,
	VCUDA_PROFILE_SUM,  /* ns in the back end; of the ring, bytes that were in it */
	VCUDA_PROFILE_MOST, /* of one command; of the ring, at a time */
	VCUDA_PROFILE_WORDS
};

#endif
