/* SPDX-License-Identifier: Apache-2.0 */
#include "blas-rotations.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#include "blas-abi.h"

/* Floats are computed in double: intermediate values do not overflow, and only the result is rounded. */
struct real_rotation {
	double a, b, c, s;
};

static void rotate_real(struct real_rotation *r)
{
	double a = r->a, b = r->b, scale = fabs(a) + fabs(b), length;

	if (scale == 0) {
		*r = (struct real_rotation){.c = 1};
		return;
	}
	length = scale * sqrt(a / scale * (a / scale) + b / scale * (b / scale));
	r->a = copysign(length, fabs(a) > fabs(b) ? a : b);
	r->c = a / r->a;
	r->s = b / r->a;
	r->b = fabs(a) > fabs(b) ? r->s : r->c != 0 ? 1 / r->c : 1;
}

static void rotate_complex(double complex *a, double complex b, double *c, double complex *s)
{
	double size = cabs(*a), scale = size + cabs(b), length;
	double complex direction;

	if (size == 0) {
		*c = 0;
		*s = 1;
		*a = b;
		return;
	}
	length = scale * sqrt(size / scale * (size / scale) + cabs(b / scale) * cabs(b / scale));
	direction = *a / size;
	*c = size / length;
	*s = direction * conj(b) / length;
	*a = direction * length;
}

static double get(int type, const void *p, unsigned int i)
{
	return type == VCUDA_BLAS_R_32F || type == VCUDA_BLAS_C_32F ? (double)((const float *)p)[i]
								    : ((const double *)p)[i];
}

static void put(int type, void *p, unsigned int i, double value)
{
	if (type == VCUDA_BLAS_R_32F || type == VCUDA_BLAS_C_32F)
		((float *)p)[i] = (float)value;
	else
		((double *)p)[i] = value;
}

void vcuda_blas_rotg(int type, void *a, void *b, void *c, void *s)
{
	struct real_rotation r = {.a = get(type, a, 0), .b = get(type, b, 0)};
	double complex ca, cs;

	if (!vcuda_blas_is_complex((unsigned int)type)) {
		rotate_real(&r);
		put(type, a, 0, r.a);
		put(type, b, 0, r.b);
		put(type, c, 0, r.c);
		put(type, s, 0, r.s);
		return;
	}
	ca = CMPLX(r.a, get(type, a, 1));
	rotate_complex(&ca, CMPLX(r.b, get(type, b, 1)), &r.c, &cs);
	put(type, a, 0, creal(ca));
	put(type, a, 1, cimag(ca));
	put(type, c, 0, r.c);
	put(type, s, 0, creal(cs));
	put(type, s, 1, cimag(cs));
}

/* ---- modified ones: H (x1 sqrt(d1), y1 sqrt(d2)) has no second component ---- */

#define GAMMA 4096.0

struct modified {
	double flag, h11, h21, h12, h22;
	double d1, d2, x1;
};

/* Makes all four elements of H explicit. */
static void unfold(struct modified *m)
{
	if (m->flag == 0) {
		m->h11 = m->h22 = 1;
	} else if (m->flag > 0) {
		m->h21 = -1;
		m->h12 = 1;
	}
	m->flag = -1;
}

/* Brings the scales back into the range where their squares are numbers. */
static void rescale(struct modified *m)
{
	while (m->d1 != 0 && (m->d1 <= 1 / (GAMMA * GAMMA) || m->d1 >= GAMMA * GAMMA)) {
		double by = m->d1 < 1 ? GAMMA : 1 / GAMMA;

		if (!isfinite(m->d1))
			break;
		unfold(m);
		m->d1 *= by * by;
		m->x1 /= by;
		m->h11 /= by;
		m->h12 /= by;
	}
	while (m->d2 != 0 && (fabs(m->d2) <= 1 / (GAMMA * GAMMA) || fabs(m->d2) >= GAMMA * GAMMA)) {
		double by = fabs(m->d2) < 1 ? GAMMA : 1 / GAMMA;

		if (!isfinite(m->d2))
			break;
		unfold(m);
		m->d2 *= by * by;
		m->h21 /= by;
		m->h22 /= by;
	}
}

static void modify(struct modified *m, double y1)
{
	double p2 = m->d2 * y1, p1 = m->d1 * m->x1, q2 = p2 * y1, q1 = p1 * m->x1, u;

	if (m->d1 < 0 || (fabs(q1) <= fabs(q2) && q2 < 0)) {
		*m = (struct modified){.flag = -1};
		return;
	}
	if (p2 == 0) {
		m->flag = -2;
		return;
	}
	if (fabs(q1) > fabs(q2)) {
		m->h21 = -y1 / m->x1;
		m->h12 = p2 / p1;
		u = 1 - m->h12 * m->h21;
		if (u <= 0) {
			*m = (struct modified){.flag = -1};
			return;
		}
		m->flag = 0;
		m->d1 /= u;
		m->d2 /= u;
		m->x1 *= u;
	} else {
		double d2 = m->d2;

		m->flag = 1;
		m->h11 = p1 / p2;
		m->h22 = m->x1 / y1;
		u = 1 + m->h11 * m->h22;
		m->d2 = m->d1 / u;
		m->d1 = d2 / u;
		m->x1 = y1 * u;
	}
	rescale(m);
}

void vcuda_blas_rotmg(int type, void *d1, void *d2, void *x1, const void *y1, void *param)
{
	struct modified m = {.d1 = get(type, d1, 0), .d2 = get(type, d2, 0), .x1 = get(type, x1, 0)};

	modify(&m, get(type, y1, 0));
	put(type, param, 0, m.flag);
	if (m.flag == -1 || m.flag == 1) {
		put(type, param, 1, m.h11);
		put(type, param, 4, m.h22);
	}
	if (m.flag == -1 || m.flag == 0) {
		put(type, param, 2, m.h21);
		put(type, param, 3, m.h12);
	}
	if (m.flag == -2)
		return;
	put(type, d1, 0, m.d1);
	put(type, d2, 0, m.d2);
	put(type, x1, 0, m.x1);
}
