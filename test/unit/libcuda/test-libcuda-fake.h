/* SPDX-License-Identifier: Apache-2.0 */
/* A transport whose worker is a thread of the test: what libcuda sends is decoded here, and answered as a device of 8
 * MiB would. */
#ifndef TEST_LIBCUDA_FAKE_H
#define TEST_LIBCUDA_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

/* For files that include cmocka.h. */
#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

/* The state and the counters of the fake worker. */
struct fake_worker {
	_Atomic uint64_t commands, async_commands;
	_Atomic uint64_t memsets;
	_Atomic uint64_t most_behind;  /* memsets of one stream that have not been waited for */
	_Atomic bool stands;           /* no stream goes on by itself */
	_Atomic bool holds;            /* no command is taken */
	_Atomic bool gone;             /* as a wait says */
	_Atomic bool busy;             /* nothing that is asked about is done */
	_Atomic uint64_t events;       /* made */
	_Atomic uint64_t out_of_order; /* memsets of a thread whose values do not count up */
	_Atomic uint64_t doorbells;
	_Atomic uint64_t mappings;     /* live ones */
	_Atomic uint64_t image_bytes; /* of the last image */
	_Atomic uint64_t image_sum;   /* sum of the image's bytes */
	_Atomic uint64_t images_staged; /* created with their first bytes */
	_Atomic uint64_t jit_options; /* a bit for each that came, by CUjit_option */
	_Atomic int links;            /* live ones */
	_Atomic uint64_t event_waits;
	_Atomic int launches_sync, launches_async;
	_Atomic uint32_t last_param_bytes;
	_Atomic uint64_t last_param_sum;
	_Atomic unsigned int reads_late; /* number of staged copies that stay in flight until another command comes */
	_Atomic uint64_t staged, behind; /* staged copies; those that waited for the default stream */
	_Atomic bool loses_staged;       /* staged copies are refused, and their place is not given back */
	_Atomic uint64_t stream_fences, whole_waits; /* fences; waits for streams and contexts that came here */
	_Atomic bool loses_fences;                   /* no stream gets to one */
	_Atomic bool ends_fences;                    /* there are none any more when a stream gets to one */
	_Atomic uint64_t outputs;                   /* parts of output that were fetched */
	_Atomic int devices;                        /* more than one */
	_Atomic int delay_us;                       /* before each answer */
	_Atomic int fail_next;                      /* CUresult of the next command that waits */
	_Atomic unsigned int features;              /* VCUDA_FEATURE_*, before cuInit */
	_Atomic int releases_fail;                  /* mappings are not released: the first ones that are to be */
};

extern struct fake_worker fake;

/* The output of kernels, once fake_shm()->output is set. */
#define FAKE_OUTPUT "a kernel's text\n"

/* The worker ends the session. */
void fake_lose(CUresult error);

/* The area that both share. */
struct vcuda_shm *fake_shm(void);

/* The number of commands of a call that succeeds. All commands before it were taken. */
uint64_t fake_commands_of(CUresult (*call)(void));

/* The worker's device memory at a device address. */
void *fake_memory(uint64_t address);

/* Addresses of device memory and of the arena; ThreadSanitizer leaves only low ones free. */
#ifdef __SANITIZE_THREAD__
#define FAKE_DEVICE_START 0x004000000000ull
#define FAKE_ARENA_START 0x002000000000ull
#else
#define FAKE_DEVICE_START 0x300000000000ull
#define FAKE_ARENA_START 0x200000000000ull
#endif
#define FAKE_DEVICE_BYTES (8u << 20)

#endif
