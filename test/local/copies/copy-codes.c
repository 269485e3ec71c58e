/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the cudaMemcpy and cudaMemset families with sets of arguments from tables. For each set the program prints
 * the call, the error it returns, the error that cudaGetLastError() then gives, and how many bytes of the destination
 * changed. The program needs only libcudart.so.13, ours or NVIDIA's, so that its output can be recorded on a GPU:
 * LD_LIBRARY_PATH=DIRECTORY_OF_NVIDIAS_LIBCUDART copy-codes
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-runtime-abi.h"
#include "test/check.h"

cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
			    unsigned int flags);
cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
			      unsigned int flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetLastError(void);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
				cudaStream_t stream);
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
			       enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
			 enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
				size_t height, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
				  size_t height, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x,
				     size_t y, size_t width, size_t height, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
			      enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
				enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *params);
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *params, cudaStream_t stream);
cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *params);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent);

#define BYTES 4096
#define OLD 0x11
#define NEW 0x22
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Named as in the output: pageable host, pinned, device, no memory. */
enum place { HOST, PINNED, DEVICE, NOTHING };

static const char letters[] = "HPDN";
static char *from[4], *to[4];
static cudaArray_t from_array, to_array, from_volume, to_volume; /* 16 x 4 and 16 x 4 x 3 words */

static void prepare(void)
{
	struct cudaChannelFormatDesc desc = {32, 0, 0, 0, cudaChannelFormatKindUnsigned};
	struct cudaExtent extent = {16, 4, 3};

	for (int i = 0; i < 2; i++) {
		char **place = i ? to : from;

		place[HOST] = calloc(1, BYTES);
		if (!place[HOST])
			exit(2);
		OK(cudaMallocHost((void **)&place[PINNED], BYTES));
		OK(cudaMalloc((void **)&place[DEVICE], BYTES));
		OK(cudaMallocArray(i ? &to_array : &from_array, &desc, 16, 4, 0));
		OK(cudaMalloc3DArray(i ? &to_volume : &from_volume, &desc, extent, 0));
	}
}

static void fill_array(cudaArray_t array, cudaArray_t volume, const char *bytes)
{
	struct cudaMemcpy3DParms p = {.srcPtr = {(void *)(uintptr_t)bytes, 64, 64, 4},
				      .dstArray = volume,
				      .extent = {16, 4, 3},
				      .kind = cudaMemcpyHostToDevice};

	OK(cudaMemcpy2DToArray(array, 0, 0, bytes, 64, 64, 4, cudaMemcpyHostToDevice));
	OK(cudaMemcpy3D(&p));
}

static void reset(void)
{
	static char bytes[BYTES];

	for (int i = 0; i < 2; i++) {
		char **place = i ? to : from;

		memset(bytes, i ? OLD : NEW, BYTES);
		memcpy(place[HOST], bytes, BYTES);
		memcpy(place[PINNED], bytes, BYTES);
		OK(cudaMemcpy(place[DEVICE], bytes, BYTES, cudaMemcpyHostToDevice));
		fill_array(i ? to_array : from_array, i ? to_volume : from_volume, bytes);
	}
}

static unsigned int changed_in(const char *bytes, size_t length)
{
	unsigned int count = 0;

	for (size_t i = 0; i < length; i++)
		count += bytes[i] != OLD;
	return count;
}

static unsigned int changed(void)
{
	static char bytes[BYTES];
	unsigned int count = changed_in(to[HOST], BYTES) + changed_in(to[PINNED], BYTES);
	struct cudaMemcpy3DParms p = {.srcArray = to_volume,
				      .dstPtr = {bytes, 64, 64, 4},
				      .extent = {16, 4, 3},
				      .kind = cudaMemcpyDeviceToHost};

	OK(cudaMemcpy(bytes, to[DEVICE], BYTES, cudaMemcpyDeviceToHost));
	count += changed_in(bytes, BYTES);
	OK(cudaMemcpy2DFromArray(bytes, 64, to_array, 0, 0, 64, 4, cudaMemcpyDeviceToHost));
	count += changed_in(bytes, 256);
	OK(cudaMemcpy3D(&p));
	return count + changed_in(bytes, 768);
}

/* Ends the line that a case has begun. */
static void show(cudaError_t error)
{
	cudaError_t last = cudaGetLastError();

	OK(cudaDeviceSynchronize());
	printf(": %d %d %u\n", (int)error, (int)last, changed());
	reset();
}

/* ---- linear ---- */

static void linear(void)
{
	static const enum place pairs[][2] = {{DEVICE, HOST},   {HOST, DEVICE},   {DEVICE, DEVICE}, {HOST, HOST},
					      {DEVICE, PINNED}, {PINNED, DEVICE}, {NOTHING, HOST},  {DEVICE, NOTHING}};
	static const int right[] = {1, 2, 3, 0, 1, 2, 1, 1};

	for (size_t n = 0; n < COUNT(pairs); n++) {
		enum place t = pairs[n][0], f = pairs[n][1];
		int kinds[] = {right[n], cudaMemcpyDefault, 5, -1};

		for (size_t k = 0; k < COUNT(kinds); k++)
			for (size_t bytes = 0; bytes <= 64; bytes += 64) {
				if ((t == NOTHING || f == NOTHING) && kinds[k] == cudaMemcpyDefault)
					continue;
				printf("cudaMemcpy %c %c %zu %d", letters[t], letters[f], bytes, kinds[k]);
				show(cudaMemcpy(to[t], from[f], bytes, (enum cudaMemcpyKind)kinds[k]));
				printf("cudaMemcpyAsync %c %c %zu %d", letters[t], letters[f], bytes, kinds[k]);
				show(cudaMemcpyAsync(to[t], from[f], bytes, (enum cudaMemcpyKind)kinds[k], NULL));
			}
	}
	for (int d = -1; d <= 1; d++)
		for (int s = -1; s <= 1; s++) {
			int td = d == 1 ? 99 : d, fd = s == 1 ? 99 : s;

			for (size_t bytes = 0; bytes <= 64; bytes += 64) {
				printf("cudaMemcpyPeer D %d D %d %zu", td, fd, bytes);
				show(cudaMemcpyPeer(to[DEVICE], td, from[DEVICE], fd, bytes));
				printf("cudaMemcpyPeerAsync D %d D %d %zu", td, fd, bytes);
				show(cudaMemcpyPeerAsync(to[DEVICE], td, from[DEVICE], fd, bytes, NULL));
			}
		}
	for (int k = -1; k <= 5; k++) {
		printf("cudaMemcpyToSymbol none H 4 %d", k);
		show(cudaMemcpyToSymbol(from[HOST], from[HOST], 4, 0, (enum cudaMemcpyKind)k));
		printf("cudaMemcpyFromSymbol H none 4 %d", k);
		show(cudaMemcpyFromSymbol(to[HOST], from[HOST], 4, 0, (enum cudaMemcpyKind)k));
	}
}

/* ---- rectangles ---- */

struct size {
	size_t width, height;
};

static const struct size sizes[] = {{0, 1}, {64, 0}, {64, 1}, {64, 2}};
static const size_t pitches[][2] = {{64, 64}, {128, 64}, {0, 0}, {0, 64}, {64, 0}, {8, 64}, {64, 8}, {63, 63}};

static void rectangles(void)
{
	static const enum place pairs[][2] = {{DEVICE, HOST}, {HOST, DEVICE}, {DEVICE, DEVICE}, {HOST, HOST}};
	static const int right[] = {1, 2, 3, 0};

	for (size_t n = 0; n < COUNT(pairs); n++)
		for (size_t p = 0; p < COUNT(pitches); p++)
			for (size_t s = 0; s < COUNT(sizes); s++) {
				enum place t = pairs[n][0], f = pairs[n][1];
				int kind = p % 2 ? cudaMemcpyDefault : right[n];

				printf("cudaMemcpy2D %c %zu %c %zu %zu %zu %d", letters[t], pitches[p][0], letters[f],
				       pitches[p][1], sizes[s].width, sizes[s].height, kind);
				show(cudaMemcpy2D(to[t], pitches[p][0], from[f], pitches[p][1], sizes[s].width,
						  sizes[s].height, (enum cudaMemcpyKind)kind));
				if (n > 1)
					continue;
				printf("cudaMemcpy2DAsync %c %zu %c %zu %zu %zu %d", letters[t], pitches[p][0],
				       letters[f], pitches[p][1], sizes[s].width, sizes[s].height, kind);
				show(cudaMemcpy2DAsync(to[t], pitches[p][0], from[f], pitches[p][1], sizes[s].width,
						       sizes[s].height, (enum cudaMemcpyKind)kind, NULL));
			}
	/* with a width of 0 NVIDIA's runtime divides by zero here */
	for (int kind = -1; kind <= 5; kind += 6) {
		printf("cudaMemcpy2D D 64 H 64 64 1 %d", kind);
		show(cudaMemcpy2D(to[DEVICE], 64, from[HOST], 64, 64, 1, (enum cudaMemcpyKind)kind));
	}
}

static void fills(void)
{
	static const size_t widths[] = {64, 8, 0, 63, 128};

	for (size_t p = 0; p < COUNT(widths); p++)
		for (size_t s = 0; s < COUNT(sizes); s++) {
			struct cudaPitchedPtr d = {to[DEVICE], widths[p], 64, 2};

			printf("cudaMemset2D D %zu %zu %zu", widths[p], sizes[s].width, sizes[s].height);
			show(cudaMemset2D(to[DEVICE], widths[p], NEW, sizes[s].width, sizes[s].height));
			for (size_t depth = 0; depth <= 2; depth++) {
				struct cudaExtent extent = {sizes[s].width, sizes[s].height, depth};

				printf("cudaMemset3D D %zu %zu %zu %zu", widths[p], extent.width, extent.height, depth);
				show(cudaMemset3D(d, NEW, extent));
			}
		}
	printf("cudaMemset N 0");
	show(cudaMemset(NULL, NEW, 0));
	printf("cudaMemset N 64");
	show(cudaMemset(NULL, NEW, 64));
}

/* ---- arrays ---- */

static void arrays(void)
{
	static const size_t strides[] = {64, 0, 8};
	static const int kinds[] = {0, 1, 2, 3, 4, 5};

	for (size_t p = 0; p < COUNT(strides); p++)
		for (size_t s = 0; s < COUNT(sizes); s++) {
			printf("cudaMemcpy2DToArray A H %zu %zu %zu 1", strides[p], sizes[s].width, sizes[s].height);
			show(cudaMemcpy2DToArray(to_array, 0, 0, from[HOST], strides[p], sizes[s].width,
						 sizes[s].height, cudaMemcpyHostToDevice));
			printf("cudaMemcpy2DFromArray H %zu A %zu %zu 2", strides[p], sizes[s].width, sizes[s].height);
			show(cudaMemcpy2DFromArray(to[HOST], strides[p], from_array, 0, 0, sizes[s].width,
						   sizes[s].height, cudaMemcpyDeviceToHost));
			/* NVIDIA's runtime divides by this pitch, but where it knows that the memory is the host's */
			if (!strides[p])
				continue;
			printf("cudaMemcpy2DFromArray H %zu A %zu %zu 4", strides[p], sizes[s].width, sizes[s].height);
			show(cudaMemcpy2DFromArray(to[HOST], strides[p], from_array, 0, 0, sizes[s].width,
						   sizes[s].height, cudaMemcpyDefault));
			printf("cudaMemcpy2DFromArray D %zu A %zu %zu 3", strides[p], sizes[s].width, sizes[s].height);
			show(cudaMemcpy2DFromArray(to[DEVICE], strides[p], from_array, 0, 0, sizes[s].width,
						   sizes[s].height, cudaMemcpyDeviceToDevice));
		}
	for (size_t k = 0; k < COUNT(kinds); k++) {
		enum cudaMemcpyKind kind = (enum cudaMemcpyKind)kinds[k];

		printf("cudaMemcpy2DArrayToArray A A 64 2 %d", kinds[k]);
		show(cudaMemcpy2DArrayToArray(to_array, 0, 0, from_array, 0, 0, 64, 2, kind));
		for (size_t bytes = 0; bytes <= 100; bytes += 100) {
			enum place p =
				kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost ? PINNED : DEVICE;

			printf("cudaMemcpyToArray A %c %zu %d", letters[p], bytes, kinds[k]);
			show(cudaMemcpyToArray(to_array, 0, 0, from[p], bytes, kind));
			printf("cudaMemcpyFromArray %c A %zu %d", letters[p], bytes, kinds[k]);
			show(cudaMemcpyFromArray(to[p], from_array, 0, 0, bytes, kind));
			printf("cudaMemcpy2DToArray A %c 64 64 %zu %d", letters[p], bytes / 50, kinds[k]);
			show(cudaMemcpy2DToArray(to_array, 0, 0, from[p], 64, 64, bytes / 50, kind));
			printf("cudaMemcpy2DFromArray %c 64 A 64 %zu %d", letters[p], bytes / 50, kinds[k]);
			show(cudaMemcpy2DFromArray(to[p], 64, from_array, 0, 0, 64, bytes / 50, kind));
		}
	}
	printf("cudaMemcpy2DToArray A+64 H 64 64 1 1");
	show(cudaMemcpy2DToArray(to_array, 64, 0, from[HOST], 64, 64, 1, cudaMemcpyHostToDevice));
	printf("cudaMemcpy2DToArray A+2 H 64 8 1 1");
	show(cudaMemcpy2DToArray(to_array, 2, 0, from[HOST], 64, 8, 1, cudaMemcpyHostToDevice));
	printf("cudaMemcpy2DToArray A H 64 64 5 1");
	show(cudaMemcpy2DToArray(to_array, 0, 0, from[HOST], 64, 64, 5, cudaMemcpyHostToDevice));
}

/* ---- boxes ---- */

static void box(const char *name, const struct cudaMemcpy3DParms *p)
{
	printf("cudaMemcpy3D %s %zu %zu %zu: pitches %zu %zu, rows %zu %zu, kind %d", name, p->extent.width,
	       p->extent.height, p->extent.depth, p->dstPtr.pitch, p->srcPtr.pitch, p->dstPtr.ysize, p->srcPtr.ysize,
	       (int)p->kind);
	show(cudaMemcpy3D(p));
	printf("cudaMemcpy3DAsync");
	show(cudaMemcpy3DAsync(p, NULL));
}

static void peer_box(const struct cudaMemcpy3DPeerParms *p)
{
	printf("cudaMemcpy3DPeer %d %d, %zu %zu %zu: pitch %zu, rows %zu", p->dstDevice, p->srcDevice, p->extent.width,
	       p->extent.height, p->extent.depth, p->srcPtr.pitch, p->srcPtr.ysize);
	show(cudaMemcpy3DPeer(p));
}

static void boxes(void)
{
	static const struct cudaExtent extents[] = {{8, 1, 1}, {8, 2, 1}, {8, 2, 2}, {8, 1, 2}, {0, 2, 2}, {8, 0, 1}};
	static const size_t shapes[][2] = {{8, 2}, {16, 3}, {0, 0}, {4, 2}, {8, 1}, {8, 0}, {0, 2}};
	struct cudaMemcpy3DPeerParms peer;
	struct cudaMemcpy3DParms p;

	for (size_t e = 0; e < COUNT(extents); e++)
		for (size_t s = 0; s < COUNT(shapes); s++) {
			peer = (struct cudaMemcpy3DPeerParms){.srcPtr = {from[DEVICE], shapes[s][0], 8, shapes[s][1]},
							      .dstPtr = {to[DEVICE], 16, 16, 4},
							      .extent = extents[e]};
			peer_box(&peer);
			p = (struct cudaMemcpy3DParms){.srcPtr = {from[HOST], shapes[s][0], 8, shapes[s][1]},
						       .dstPtr = {to[DEVICE], 16, 16, 4},
						       .extent = extents[e],
						       .kind = cudaMemcpyHostToDevice};
			box("D H", &p);
			p.srcPtr = (struct cudaPitchedPtr){from[DEVICE], 16, 16, 4};
			p.dstPtr = (struct cudaPitchedPtr){to[HOST], shapes[s][0], 8, shapes[s][1]};
			p.kind = cudaMemcpyDefault;
			box("H D", &p);
			/* in elements of 4 bytes: twice the pitch */
			p = (struct cudaMemcpy3DParms){.srcPtr = {from[HOST], 4 * shapes[s][0], 8, shapes[s][1]},
						       .dstArray = to_volume,
						       .extent = extents[e],
						       .kind = cudaMemcpyHostToDevice};
			box("A H", &p);
		}
}

/* Boxes that name too much, too little, or memory outside. */
static void odd_boxes(void)
{
	const struct cudaMemcpy3DParms good = {.srcPtr = {from[DEVICE], 16, 16, 4},
					       .dstPtr = {to[DEVICE], 16, 16, 4},
					       .extent = {8, 2, 2},
					       .kind = cudaMemcpyDeviceToDevice};
	struct cudaMemcpy3DParms p;
	struct cudaMemcpy3DPeerParms peer = {
		.srcPtr = {from[DEVICE], 16, 16, 4}, .dstPtr = {to[DEVICE], 16, 16, 4}, .extent = {8, 2, 2}};

	for (peer.srcDevice = -1; peer.srcDevice <= 1; peer.srcDevice++) {
		peer.extent.width = 8;
		peer.dstDevice = peer.srcDevice == 1 ? 99 : 0;
		peer_box(&peer);
		peer.extent.width = 0;
		peer_box(&peer);
	}
	printf("cudaMemcpy3D none");
	show(cudaMemcpy3D(NULL));
	printf("cudaMemcpy3DAsync none");
	show(cudaMemcpy3DAsync(NULL, NULL));
	printf("cudaMemcpy3DPeer none");
	show(cudaMemcpy3DPeer(NULL));
	for (int kind = -1; kind <= 5; kind += 3) {
		p = good;
		p.kind = (enum cudaMemcpyKind)kind;
		box("D D", &p);
	}
	p = good;
	p.srcArray = from_volume;
	box("D A+D", &p);
	p = good;
	p.dstPtr.ptr = NULL;
	box("N D", &p);
	p = good;
	p.srcPos.x = 8;
	box("D D+8", &p);
	p.srcPos.x = 9;
	box("D D+9", &p);
	p = good;
	p.dstPos.y = 2;
	box("D+row 2 D", &p);
	p.dstPos.y = 3;
	box("D+row 3 D", &p);
	p = good;
	p.dstPos.z = 1;
	box("D+slice 1 D", &p);
	p = (struct cudaMemcpy3DParms){
		.srcArray = from_volume, .dstArray = to_volume, .extent = {16, 4, 3}, .kind = cudaMemcpyDeviceToDevice};
	box("A A", &p);
	p.extent.width = 17;
	box("A A", &p);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	prepare();
	reset();
	linear();
	rectangles();
	fills();
	arrays();
	boxes();
	odd_boxes();
	return 0;
}
