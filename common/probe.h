/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes for who traces from outside (doc/howto/trace.md): a no-operation each, and a note in the ELF file that says where it
 * is and where its arguments are. Without <sys/sdt.h> at build time there are none. Arguments are numbers and pointers
 * that are at hand anyway.
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
