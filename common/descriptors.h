/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_DESCRIPTORS_H
#define VCUDA_DESCRIPTORS_H

#include <errno.h>
#include <sys/resource.h>

/* As many as this process may have. The usual soft limit is for users of select(). 0 or -errno. */
static inline int vcuda_descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -errno : 0;
}

#endif
