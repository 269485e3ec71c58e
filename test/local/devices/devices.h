/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with several devices. Each part is a process of its own, and runs natively, too. */
#ifndef TEST_LOCAL_DEVICES_H
#define TEST_LOCAL_DEVICES_H

#include "test/local/api.h"

enum { WORDS = 1 << 16, BYTES = 4 * WORDS, MOST = 8 };

/* A device with its primary context, made by open_device(). */
struct device {
	CUcontext context;
	CUfunction add, meet; /* kernels.c */
	CUdeviceptr memory;   /* BYTES */
	CUstream stream;
};

extern struct device devices[MOST];
extern int device_count;

/* Begins CUDA and opens all devices; device 0 is current then. */
void open_devices(void);

/* Makes a device's context current. */
void use(int device);

/* p[i] is first + i for WORDS words, in the current context. expect() ends the process if that is not so. */
void fill(CUdeviceptr p, uint32_t first);
void expect(CUdeviceptr p, uint32_t first);

/* Adds k to WORDS words at p, in the stream of a device. */
void add(int device, CUdeviceptr p, uint32_t k);

/* Waits for that stream. */
CUresult finish(int device);

/* Checks that a kernel of a device may, or may not, change the memory at p. faults() costs the device its context. */
void reaches(int device, CUdeviceptr p);
void faults(int device, CUdeviceptr p);

/* The device that cuPointerGetAttribute() names. */
int owner(CUdeviceptr p);

/* identity.c */
void identity(void);
void visible(void);

/* memory.c */
void memory(void);
void threads(void);
void copies(void);
void managed(void);
void pools(void);
void pools_closed(void);
void mappings(void);
void mappings_closed(void);
void mappings_read_only(void);
void quota(void);

/* peers.c */
void peer_codes(void);
void peer_access(void);
void peer_never(void);
void peer_ended(void);
void sharing(void);

/* work.c */
void events(void);
void cooperative(void);
void several_launches(void);
void graphs(void);

#endif
