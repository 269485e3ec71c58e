/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzer of the worker and the maker of its inputs agree on. */
#ifndef FUZZ_WORKER_H
#define FUZZ_WORKER_H

/* A word of this and 16 bits stands for a word of an earlier reply: that of this number. */
#define FUZZ_WORKER_REFERENCE 0x5eed5eed5eed0000ull

/* The longest arguments of a record in bytes. */
#define FUZZ_WORKER_RECORD 4096

/* Where the worker has a mapping of the guest's memory. */
#define FUZZ_WORKER_MAPPED 0x200000000000ull

#endif
