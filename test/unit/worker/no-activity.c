/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of what is around activities (host/worker/session/activity.h): the guest does not profile. */
#include "session/activity.h"

void worker_activity_begin(struct worker_session *s, CUstream stream)
{
	(void)s;
	(void)stream;
}

void worker_activity_end(struct worker_session *s, CUstream stream)
{
	(void)s;
	(void)stream;
}

void worker_activity_forget(struct worker_session *s, uint64_t context)
{
	(void)s;
	(void)context;
}
