/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel writes into host memory: no copy is called. With unified addressing the device sees pinned memory at the
 * address that the host uses, so pointers inside structures work on both sides.
 */
#include "example.h"

struct node {
	unsigned int value;
	struct node *next; /* a host address, followed on the device */
};

__global__ void fill(unsigned int *data, unsigned int count)
{
	for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
		data[i] = i * 2654435761u + 12345u;
}

__global__ void sum_list(const struct node *node, unsigned int *sum)
{
	unsigned int total = 0;

	for (; node; node = node->next)
		total += node->value;
	*sum = total;
}

static bool check_fill(unsigned int *data, unsigned int count)
{
	fill<<<64, 128>>>(data, count);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	for (unsigned int i = 0; i < count; i++) {
		if (data[i] != i * 2654435761u + 12345u) {
			fprintf(stderr, "word %u is %u\n", i, data[i]);
			return false;
		}
	}
	return true;
}

/* A list whose nodes are scattered in the buffer; the sum of the list is stored in the first word. */
static bool check_list(struct node *nodes, unsigned int count)
{
	unsigned int *sum = (unsigned int *)(nodes + count), expected = 0;
	unsigned int at = 0;

	for (unsigned int i = 0; i < count; i++) {
		unsigned int next = (at + 7919) % count; /* a prime step visits every node */

		nodes[at].value = i;
		nodes[at].next = i + 1 < count ? &nodes[next] : NULL;
		expected += i;
		at = next;
	}
	*sum = 0;
	sum_list<<<1, 1>>>(nodes, sum);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	if (*sum != expected)
		fprintf(stderr, "the list's sum is %u, not %u\n", *sum, expected);
	return *sum == expected;
}

int main()
{
	const unsigned int count = 1 << 20, nodes = 1000;
	void *host, *device;
	bool good;

	print_device();
	CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
	CHECK(cudaHostAlloc(&host, count * sizeof(unsigned int), cudaHostAllocMapped));
	CHECK(cudaHostGetDevicePointer(&device, host, 0));
	good = device == host;
	if (!good)
		fprintf(stderr, "the host's address %p is %p on the device\n", host, device);
	good = good && check_fill((unsigned int *)host, count) && check_list((struct node *)host, nodes);
	CHECK(cudaFreeHost(host));
	printf("%u words written, %u nodes read at the host's addresses\n", count, nodes);
	return finish(good);
}
