/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: memory whose pages come late, from a thread that registers and allocates host memory itself meanwhile. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/driver/uapi.h"
#include "registration.h"

#define PAGE 4096u
#define PAGES 4u

/* A registration that fails brings no faults. */
#define FAULT_MS 60000

struct pager {
	int faults; /* a userfaultfd */
	CUcontext context;
	CUresult failed;
};

/* The calls of other threads while one registers memory. */
static CUresult pin(void)
{
	void *allocated, *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUresult failed = cuMemHostAlloc(&allocated, PAGE, 0);

	if (!failed)
		failed = cuMemHostRegister_v2(own, PAGE, 0);
	if (!failed)
		failed = cuMemHostUnregister(own);
	if (!failed)
		failed = cuMemFreeHost(allocated);
	munmap(own, PAGE);
	return failed;
}

static void *bring_pages(void *argument)
{
	struct pager *pager = argument;

	pager->failed = cuCtxSetCurrent(pager->context);
	for (unsigned int i = 0; i < PAGES; i++) {
		struct uffd_msg message;
		struct uffdio_zeropage page = {.range.len = PAGE};

		if (poll(&(struct pollfd){pager->faults, POLLIN, 0}, 1, FAULT_MS) != 1 ||
		    read(pager->faults, &message, sizeof(message)) != sizeof(message)) {
			pager->failed = CUDA_ERROR_UNKNOWN;
			return NULL;
		}
		if (!pager->failed)
			pager->failed = pin();
		page.range.start = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		if (ioctl(pager->faults, UFFDIO_ZEROPAGE, &page))
			pager->failed = CUDA_ERROR_UNKNOWN;
	}
	return NULL;
}

/* -1: the kernel does not let us. */
static int watch(void *memory, size_t bytes)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)memory, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (faults >= 0 && !ioctl(faults, UFFDIO_API, &api) && !ioctl(faults, UFFDIO_REGISTER, &range))
		return faults;
	if (faults >= 0)
		close(faults);
	return -1;
}

void probe_late(void)
{
	uint8_t *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pager pager = {.faults = watch(memory, PAGES * PAGE)};
	pthread_t thread;

	probe_begin("late pages", "by a thread that registers memory");
	/* The driver of a VM reads the pages in the kernel: with UFFD_USER_MODE_ONLY the thread is not told of that. */
	if (pager.faults < 0 || access(VCUDA_DEVICE_PATH, F_OK) == 0) {
		printf("late pages: not tested: there is no userfaultfd, or the kernel reads the pages\n");
		if (pager.faults >= 0)
			close(pager.faults);
		munmap(memory, PAGES * PAGE);
		return;
	}
	OK(cuCtxGetCurrent(&pager.context));
	EXPECT(pthread_create(&thread, NULL, bring_pages, &pager) == 0);
	OK(cuMemHostRegister_v2(memory, PAGES * PAGE, 0));
	EXPECT(pthread_join(thread, NULL) == 0);
	OK(pager.failed);
	probe_use(memory, PAGES * PAGE);
	OK(cuMemHostUnregister(memory));
	close(pager.faults);
	munmap(memory, PAGES * PAGE);
}
