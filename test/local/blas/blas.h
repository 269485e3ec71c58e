/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that call any cuBLAS through dlopen(), and compare it with plain C. For each type of elements the plain
 * C computes in double _Complex. Operands are in device memory with numbers all around them, so that a stray store is
 * found.
 */
#ifndef LOCAL_BLAS_H
#define LOCAL_BLAS_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef double complex cplx;

struct element {
	char letter; /* S D C Z; H T: half, bfloat16; Q R: of 8 bits, E4M3 and E5M2; B: int8_t, E: complex
			ones, I: int32_t */
	unsigned int size;
	bool is_complex, is_double;
	int type; /* cudaDataType's number */
};

/* The settings of a test. */
struct setting {
	const struct element *e;
	bool device_scalars;
	bool wide; /* the functions with _64 */
};

/* A piece of device memory, and what the plain C makes of it. */
struct operand {
	const struct element *e;
	uint64_t address;
	int64_t length; /* elements */
	cplx *now;      /* the expected value */
	cplx *before;
};

extern struct setting now;
extern void *blas_handle;

#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			blas_fail(__FILE__, __LINE__, #condition);                                                     \
	} while (0)

/* Whether it computes on the software GPU, whatever the library. */
bool blas_is_software(void);

/* The library is NVIDIA's, or a GPU's: it may lack what ours has. Not for cuBLASLt, which has lt_may_lack(). */
bool blas_may_lack(void);

void blas_fail(const char *file, int line, const char *what) __attribute__((noreturn));

/* The function cublas<name> of the setting: a * in the name is the type's letter, a ^ the name of one that gives a
 * real. = in front of it: there is no _v2 behind it; ~: nor _64. */
void *blas_function(const char *name);

bool blas_has(const char *name);

/* The same numbers in every run. */
int64_t random_below(int64_t n);
cplx random_number(void);
cplx random_scalar(void); /* 0 and 1 among them */

#define ELEMENTS 11
extern const struct element elements[ELEMENTS];

/* By its letter. */
const struct element *element_of(char letter);

/* Number i of those that lie there. */
void number_store(const struct element *e, void *base, int64_t i, cplx value);
cplx number_load(const struct element *e, const void *base, int64_t i);
/* `scale`: how large the sums are that made a. */
bool number_is_close(const struct element *e, cplx a, cplx b, double scale);

/* Operands have the setting's type. */
struct operand operand_new(int64_t length);
/* A vector has n elements with an increment; further functions are for a matrix. */
struct operand vector_new(int64_t n, int64_t increment);
/* Checks that the device's memory has the expected numbers; `scale`: the size of the sums that made them. */
void operand_check(struct operand *o, double scale, const char *what);
/* Reads the operand into before[]. */
void operand_read(struct operand *o);
void operand_write(struct operand *o);
void operand_free(struct operand *o);

/* The index of element i of a vector. */
int64_t at(int64_t i, int64_t n, int64_t increment);

/* An array of addresses in device memory, which is good until the next 8 of them. */
uint64_t address_array(const uint64_t *addresses, int64_t count);

/* A scalar as the pointer mode wants it; valid until the next 16 of them. */
const void *scalar(cplx value);
const void *real_scalar(double value);
/* Numbers of the type, or real ones, where the pointer mode wants them, which are read and written; and what is there.
 */
void *numbers(const cplx *values, int count, bool real);
cplx number_at(const void *numbers, int i, bool real);
/* Room for a result, and what came there. */
void *result_room(void);
cplx result_value(bool real);
int64_t result_index(void);

/* ---- the tests ---- */

void test_level_1(void);
void test_level_2(void);
void test_level_3(void);
void test_rotations(void);
void test_matrices(void);
void test_batches(void);
void test_types(void);
void test_factors(void);

#endif
