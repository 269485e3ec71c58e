/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes for tracers outside the process (doc/howto/trace.md). A probe is a no-operation, and a note in the ELF file
 * with its address and the places of its arguments. Without <sys/sdt.h> at build time there are none. Arguments are
 * numbers and pointers that the caller has anyway.
 */
#ifndef VCUDA_PROBE_H
#define VCUDA_PROBE_H

#ifdef VCUDA_PROBES
#include <sys/sdt.h>
#define VCUDA_PROBE(name) DTRACE_PROBE(vcuda, name)
#define VCUDA_PROBE2(name, a, b) DTRACE_PROBE2(vcuda, name, a, b)
#define VCUDA_PROBE3(name, a, b, c) DTRACE_PROBE3(vcuda, name, a, b, c)
#else
#define VCUDA_PROBE(name) ((void)0)
#define VCUDA_PROBE2(name, a, b) ((void)sizeof(a), (void)sizeof(b))
#define VCUDA_PROBE3(name, a, b, c) ((void)sizeof(a), (void)sizeof(b), (void)sizeof(c))
#endif

#endif
