/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, in the common subset of CUDA and OpenCL C: all sides run one source. */
#ifdef __OPENCL_VERSION__
#define KERNEL __kernel void
#define GLOBAL __global
#define SHARED __local
#define CONSTANT __constant
#define RESTRICT restrict
#define DEVICE
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)
#define TX ((int)get_local_id(0))
#define TY ((int)get_local_id(1))
#define BX ((int)get_group_id(0))
#define BY ((int)get_group_id(1))
#define NX ((int)get_local_size(0))
#define NY ((int)get_local_size(1))
#define BLOCKS ((int)get_num_groups(0))
#define ATOMIC_ADD(at, value) atomic_add(at, value)
#define EXP2(x) native_exp2(x)
#define LOG2(x) native_log2(x)
#define RSQRT(x) native_rsqrt(x)
#define SQRT(x) sqrt(x)
#define FABS(x) fabs(x)
#else
#define KERNEL extern "C" __global__ void
#define GLOBAL
#define SHARED __shared__
#define CONSTANT __constant__
#define RESTRICT __restrict__
#define DEVICE __device__ static inline
#define SYNC __syncthreads()
#define TX ((int)threadIdx.x)
#define TY ((int)threadIdx.y)
#define BX ((int)blockIdx.x)
#define BY ((int)blockIdx.y)
#define NX ((int)blockDim.x)
#define NY ((int)blockDim.y)
#define BLOCKS ((int)gridDim.x)
typedef unsigned int uint;
#define UNARY(name, code)                                                                                              \
	__device__ static inline float name(float x)                                                                   \
	{                                                                                                              \
		float y;                                                                                               \
		asm(code " %0, %1;" : "=f"(y) : "f"(x));                                                               \
		return y;                                                                                              \
	}
UNARY(EXP2, "ex2.approx.f32")
UNARY(LOG2, "lg2.approx.f32")
UNARY(RSQRT, "rsqrt.approx.f32")
UNARY(SQRT, "sqrt.rn.f32")
UNARY(FABS, "abs.f32")
#ifdef __clang__
#define ATOMIC_ADD(at, value) __nvvm_atom_add_gen_i((int *)(at), value)
#else
#define ATOMIC_ADD(at, value) atomicAdd(at, value)
#endif
__device__ static inline float shuffle_down(float x, int lanes)
{
	float y;

	asm volatile("shfl.sync.down.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lanes));
	return y;
}
#endif

#define THREAD (BX * NX + TX)

KERNEL empty(int n)
{
}

KERNEL vectorAdd(const GLOBAL float *RESTRICT a, const GLOBAL float *RESTRICT b, GLOBAL float *RESTRICT c, int n)
{
	int i = THREAD;

	if (i < n)
		c[i] = a[i] + b[i];
}

KERNEL triad(const GLOBAL float *RESTRICT a, const GLOBAL float *RESTRICT b, GLOBAL float *RESTRICT c, float s, int n)
{
	for (int i = THREAD; i < n; i += BLOCKS * NX)
		c[i] = a[i] + s * b[i];
}

#define MATRIX_MUL(name, SIDE)                                                                                         \
	KERNEL name(const GLOBAL float *a, const GLOBAL float *b, GLOBAL float *c, int n)                              \
	{                                                                                                              \
		SHARED float as[SIDE][SIDE];                                                                           \
		SHARED float bs[SIDE][SIDE];                                                                           \
		int row = BY * SIDE + TY, column = BX * SIDE + TX;                                                     \
		float sum = 0;                                                                                         \
                                                                                                                       \
		for (int at = 0; at < n; at += SIDE) {                                                                 \
			as[TY][TX] = a[row * n + at + TX];                                                             \
			bs[TY][TX] = b[(at + TY) * n + column];                                                        \
			SYNC;                                                                                          \
			_Pragma("unroll") for (int k = 0; k < SIDE; k++) sum += as[TY][k] * bs[k][TX];                 \
			SYNC;                                                                                          \
		}                                                                                                      \
		c[row * n + column] = sum;                                                                             \
	}
MATRIX_MUL(matrixMul32, 32)
MATRIX_MUL(matrixMul16, 16)

/* A block of 256 threads leaves its sum in out[]. OpenCL 1.2 has no shuffles: the tree takes their place there. */
KERNEL treeReduce(const GLOBAL float *RESTRICT in, GLOBAL float *RESTRICT out, int n)
{
	SHARED float part[256];
	float sum = 0;

	for (int i = THREAD; i < n; i += BLOCKS * NX)
		sum += in[i];
	part[TX] = sum;
	for (int width = 128; width; width /= 2) {
		SYNC;
		if (TX < width)
			part[TX] += part[TX + width];
	}
	if (TX == 0)
		out[BX] = part[0];
}

#ifndef __OPENCL_VERSION__
KERNEL shuffleReduce(const float *RESTRICT in, float *RESTRICT out, int n)
{
	SHARED float part[8];
	float sum = 0;

	for (int i = THREAD; i < n; i += BLOCKS * NX)
		sum += in[i];
	for (int lanes = 16; lanes; lanes /= 2)
		sum += shuffle_down(sum, lanes);
	if (TX % 32 == 0)
		part[TX / 32] = sum;
	SYNC;
	if (TX < 32) {
		sum = TX < 8 ? part[TX] : 0;
		for (int lanes = 4; lanes; lanes /= 2)
			sum += shuffle_down(sum, lanes);
		if (TX == 0)
			out[BX] = sum;
	}
}
#endif

KERNEL mandelbrot(GLOBAL int *RESTRICT out, int width, int most)
{
	int i = THREAD, k = 0;
	float cx = (float)(i % width) * 3.0f / (float)width - 2, cy = (float)(i / width) * 2.0f / (float)width - 1;
	float x = 0, y = 0, t;

	while (k < most && x * x + y * y < 4) {
		t = x * x - y * y + cx;
		y = 2 * x * y + cy;
		x = t;
		k++;
	}
	out[i] = k;
}

KERNEL spmv(const GLOBAL int *RESTRICT rows, const GLOBAL int *RESTRICT columns, const GLOBAL float *RESTRICT values,
	    const GLOBAL float *RESTRICT x, GLOBAL float *RESTRICT y, int n)
{
	int i = THREAD;
	float sum = 0;

	if (i >= n)
		return;
	for (int k = rows[i]; k < rows[i + 1]; k++)
		sum += values[k] * x[columns[k]];
	y[i] = sum;
}

KERNEL gather(const GLOBAL int *RESTRICT at, const GLOBAL float *RESTRICT x, GLOBAL float *RESTRICT y, int n)
{
	int i = THREAD;

	if (i < n)
		y[i] = x[at[i]];
}

KERNEL transpose(const GLOBAL float *RESTRICT in, GLOBAL float *RESTRICT out, int n)
{
	SHARED float tile[32][33];

	for (int k = 0; k < 32; k += NY)
		tile[TY + k][TX] = in[(BY * 32 + TY + k) * n + BX * 32 + TX];
	SYNC;
	for (int k = 0; k < 32; k += NY)
		out[(BX * 32 + TY + k) * n + BY * 32 + TX] = tile[TX][TY + k];
}

KERNEL histogram(const GLOBAL int *RESTRICT in, GLOBAL int *RESTRICT out, int n)
{
	SHARED int bins[256];

	bins[TX] = 0;
	SYNC;
	for (int i = THREAD; i < n; i += BLOCKS * NX)
		ATOMIC_ADD(&bins[in[i] & 255], 1);
	SYNC;
	out[BX * 256 + TX] = bins[TX];
}

KERNEL stencil2D(const GLOBAL float *RESTRICT in, GLOBAL float *RESTRICT out, int n)
{
	int x = BX * NX + TX, y = BY * NY + TY;

	if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
		out[y * n + x] = 0.2f * (in[y * n + x] + in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] +
					 in[(y + 1) * n + x]);
}

KERNEL stencil3D(const GLOBAL float *RESTRICT in, GLOBAL float *RESTRICT out, int n)
{
	int x = BX * NX + TX, y = BY * NY + TY, plane = n * n, at = plane + y * n + x;
	float below, here, above;

	if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1)
		return;
	below = in[at - plane];
	here = in[at];
	for (int z = 1; z < n - 1; z++, at += plane) {
		above = in[at + plane];
		out[at] = 0.4f * here + 0.1f * (below + above + in[at - 1] + in[at + 1] + in[at - n] + in[at + n]);
		below = here;
		here = above;
	}
}

KERNEL nbody(const GLOBAL float *RESTRICT px, const GLOBAL float *RESTRICT py, const GLOBAL float *RESTRICT pz,
	     GLOBAL float *RESTRICT ax, GLOBAL float *RESTRICT ay, GLOBAL float *RESTRICT az, int n)
{
	SHARED float sx[256];
	SHARED float sy[256];
	SHARED float sz[256];
	int i = THREAD;
	float x = px[i], y = py[i], z = pz[i], fx = 0, fy = 0, fz = 0;

	for (int tile = 0; tile < n; tile += 256) {
		sx[TX] = px[tile + TX];
		sy[TX] = py[tile + TX];
		sz[TX] = pz[tile + TX];
		SYNC;
		for (int k = 0; k < 256; k++) {
			float dx = sx[k] - x, dy = sy[k] - y, dz = sz[k] - z;
			float r = RSQRT(dx * dx + dy * dy + dz * dz + 0.01f), w = r * r * r;

			fx += dx * w;
			fy += dy * w;
			fz += dz * w;
		}
		SYNC;
	}
	ax[i] = fx;
	ay[i] = fy;
	az[i] = fz;
}

KERNEL scan(const GLOBAL int *RESTRICT in, GLOBAL int *RESTRICT out)
{
	SHARED int part[256];
	int sum = in[THREAD], other;

	part[TX] = sum;
	for (int reach = 1; reach < 256; reach *= 2) {
		SYNC;
		other = TX >= reach ? part[TX - reach] : 0;
		SYNC;
		sum += other;
		part[TX] = sum;
	}
	out[THREAD] = sum;
}

/* The normal distribution, by the polynomial of Abramowitz and Stegun. */
DEVICE float distribution(float d)
{
	float k = 1 / (1 + 0.2316419f * FABS(d)), p = 1.330274429f;

	p = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * p))));
	p *= 0.39894228f * EXP2(-0.72134752f * d * d);
	return d > 0 ? 1 - p : p;
}

KERNEL blackScholes(const GLOBAL float *RESTRICT price, const GLOBAL float *RESTRICT strike,
		    const GLOBAL float *RESTRICT years, GLOBAL float *RESTRICT call, GLOBAL float *RESTRICT put, int n)
{
	int i = THREAD;
	float s, x, root, d1, d2, discounted;

	if (i >= n)
		return;
	s = 5 + 25 * price[i];
	x = 1 + 99 * strike[i];
	root = SQRT(0.25f + 10 * years[i]);
	d1 = (LOG2(s / x) * 0.69314718f + (0.02f + 0.5f * 0.3f * 0.3f) * root * root) / (0.3f * root);
	d2 = d1 - 0.3f * root;
	discounted = x * EXP2(-0.02f * 1.44269504f * root * root);
	call[i] = s * distribution(d1) - discounted * distribution(d2);
	put[i] = discounted * distribution(-d2) - s * distribution(-d1);
}

/* Each block sorts 512 numbers. */
KERNEL bitonic(const GLOBAL int *RESTRICT in, GLOBAL int *RESTRICT out)
{
	SHARED int part[512];

	part[TX] = in[BX * 512 + TX];
	part[TX + 256] = in[BX * 512 + TX + 256];
	for (int size = 2; size <= 512; size *= 2)
		for (int step = size / 2; step; step /= 2) {
			int at = 2 * TX - (TX & (step - 1)), a, b;

			SYNC;
			a = part[at];
			b = part[at + step];
			if ((a > b) == !(at & size)) {
				part[at] = b;
				part[at + step] = a;
			}
		}
	SYNC;
	out[BX * 512 + TX] = part[TX];
	out[BX * 512 + TX + 256] = part[TX + 256];
}

#define ROTATE(x, n) ((x) << (n) | (x) >> (32 - (n)))

/* MD5's rounds over one block per thread, without its tables: integer arithmetic and no memory. */
KERNEL hash(GLOBAL uint *RESTRICT out, int rounds)
{
	uint i = (uint)THREAD, a = 0x67452301u ^ i, b = 0xefcdab89u, c = 0x98badcfeu, d = 0x10325476u, f;

	for (int k = 0; k < rounds; k++) {
		f = a + ((b & c) | (~b & d)) + i * 0x9e3779b9u;
		a = d, d = c, c = b, b += ROTATE(f, 7);
		f = a + ((d & b) | (~d & c)) + 0xd76aa478u;
		a = d, d = c, c = b, b += ROTATE(f, 12);
		f = a + (b ^ c ^ d) + i;
		a = d, d = c, c = b, b += ROTATE(f, 17);
		f = a + (c ^ (b | ~d)) + 0xe8c7b756u;
		a = d, d = c, c = b, b += ROTATE(f, 22);
	}
	out[i] = a ^ b ^ c ^ d;
}
