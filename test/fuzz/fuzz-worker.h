/* SPDX-License-Identifier: Apache-2.0 */
/* The format of the worker fuzzer's inputs, for the fuzzer and the generator of the inputs. */
#ifndef FUZZ_WORKER_H
#define FUZZ_WORKER_H

/*
 * A word with this value in its upper 48 bits is replaced by a word of an earlier reply; the lower 16 bits are its
 * number.
 */
#define FUZZ_WORKER_REFERENCE 0x5eed5eed5eed0000ull

/* The longest arguments of a record in bytes. */
#define FUZZ_WORKER_RECORD 4096

/* The address of the worker's mapping of guest memory. */
#define FUZZ_WORKER_MAPPED 0x200000000000ull

#endif
