/* SPDX-License-Identifier: Apache-2.0 */
#include "driver-test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest/driver/uapi.h"

void check_failed(const char *file, int line, const char *what, int error)
{
	fprintf(stderr, "%s:%d: %s (%s)\n", file, line, what, strerror(error));
	exit(1);
}

int open_device(void)
{
	int fd = open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

int open_context(int fd, enum scenario scenario)
{
	struct vcuda_open args = { .major = 1, .minor = scenario, .shm_bytes = SHM_BYTES };

	return ioctl(fd, VCUDA_IOC_OPEN, &args);
}

volatile uint32_t *map_share(int fd)
{
	void *share = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(share != MAP_FAILED);
	return share;
}

int wait_word(int fd, uint32_t seen, uint32_t timeout_us)
{
	struct vcuda_wait args = { .seen = seen, .timeout_us = timeout_us };

	return ioctl(fd, VCUDA_IOC_WAIT, &args);
}

int pin(int fd, const void *address, size_t length, bool writable)
{
	struct vcuda_pin args = { (uintptr_t)address, length, writable ? VCUDA_PIN_WRITABLE : 0, 0 };

	return ioctl(fd, VCUDA_IOC_PIN, &args);
}

int pin_direct(int fd, const void *address, size_t length, bool writable)
{
	struct vcuda_pin args = { (uintptr_t)address, length,
				  VCUDA_PIN_DIRECT | (writable ? VCUDA_PIN_WRITABLE : 0), 0 };

	return ioctl(fd, VCUDA_IOC_PIN, &args);
}

int unpin(int fd, const void *address, size_t length)
{
	struct vcuda_unpin args = { (uintptr_t)address, length };

	return ioctl(fd, VCUDA_IOC_UNPIN, &args);
}

struct counters ask(int fd, volatile uint32_t *share)
{
	uint32_t seen = share[0];
	struct counters counters;

	CHECK(!ioctl(fd, VCUDA_IOC_DOORBELL));
	CHECK(!wait_word(fd, seen, 10000000));
	memcpy(&counters, (const void *)(share + 16), sizeof(counters));
	CHECK(!counters.bad);
	return counters;
}

void *memory(size_t bytes)
{
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(address != MAP_FAILED);
	return address;
}

unsigned long pinned_kib(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmPin: %lu", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib;
}
