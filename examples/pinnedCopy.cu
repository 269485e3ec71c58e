/* SPDX-License-Identifier: Apache-2.0 */
/* Copies pinned memory to the device and back, checks every byte and prints the rates. usage: pinnedCopy [MiB [rounds]]
 */
#include <time.h>

#include "example.h"

static double now()
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

/* The best of several rounds, in GB/s. */
static double rate(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, int rounds)
{
	double best = 0;

	for (int i = 0; i < rounds; i++) {
		double start = now(), seconds;

		CHECK(cudaMemcpyAsync(to, from, bytes, kind, 0));
		CHECK(cudaStreamSynchronize(0));
		seconds = now() - start;
		if (bytes / seconds > best)
			best = bytes / seconds;
	}
	return best * 1e-9;
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20, words = bytes / sizeof(unsigned long long);
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	unsigned long long *source, *target, state = 88172645463325252ull;
	double up, down;
	bool good = true;
	void *device;

	if (argc > 3 || !bytes || bytes > (size_t)1 << 36 || rounds < 1) {
		fprintf(stderr, "usage: pinnedCopy [MiB [rounds]]\n");
		return finish(false);
	}
	print_device();
	CHECK(cudaHostAlloc((void **)&source, bytes, cudaHostAllocDefault));
	CHECK(cudaHostAlloc((void **)&target, bytes, cudaHostAllocDefault));
	CHECK(cudaMalloc(&device, bytes));
	for (size_t i = 0; i < words; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		source[i] = state;
		target[i] = 0;
	}
	CHECK(cudaMemset(device, 0, bytes));
	CHECK(cudaDeviceSynchronize());
	up = rate(device, source, bytes, cudaMemcpyHostToDevice, rounds);
	down = rate(target, device, bytes, cudaMemcpyDeviceToHost, rounds);
	for (size_t i = 0; i < words && good; i++) {
		good = source[i] == target[i];
		if (!good)
			fprintf(stderr, "word %zu is %llx, not %llx\n", i, target[i], source[i]);
	}
	printf("%zu MiB: to the device %.2f GB/s, from the device %.2f GB/s\n", bytes >> 20, up, down);
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(source));
	CHECK(cudaFreeHost(target));
	return finish(good);
}
