/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of vcudaActivities is rows of four words. A row is a command that the worker has run, or the time in which
 * the device ran the command's work. Rows exist while the control page's `profile` has VCUDA_PROFILE_ACTIVITIES. Times
 * are ns of the worker's monotonic clock. Rows are in no order.
 */
#ifndef VCUDA_ACTIVITY_ROWS_H
#define VCUDA_ACTIVITY_ROWS_H

/* Bits of the control page's `profile`. */
#define VCUDA_PROFILE_COUNTS 1u     /* vcudaProfile */
#define VCUDA_PROFILE_ACTIVITIES 2u /* vcudaActivities */

enum vcuda_activity_word {
	VCUDA_ACTIVITY_SEQ,  /* of the command */
	VCUDA_ACTIVITY_WHAT, /* the command's kind; VCUDA_ACTIVITY_ON_DEVICE; from bit 32 on, the guest's thread */
	VCUDA_ACTIVITY_BEGIN,
	VCUDA_ACTIVITY_END,
	VCUDA_ACTIVITY_WORDS
};

#define VCUDA_ACTIVITY_OP 0xffffu
#define VCUDA_ACTIVITY_ON_DEVICE 0x10000u

#endif
