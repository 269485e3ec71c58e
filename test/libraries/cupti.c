/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's tools interface says its version, as JAX wants it to, and that it cannot watch anything, instead of a crash. */
#include "check.h"

#include <cuda.h>
#include <cupti.h>

static void CUPTIAPI heard(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
}

int main(void)
{
	CUpti_SubscriberHandle subscriber;
	uint32_t version = 0;
	uint64_t now = 0;

	OK(cuptiGetVersion(&version));
	CHECK(version == CUPTI_API_VERSION);
	OK(cuInit(0));
	OK(cuptiGetTimestamp(&now));
	CHECK(now);
	CHECK(cuptiSubscribe(&subscriber, heard, NULL) != CUPTI_SUCCESS);
	CHECK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL) != CUPTI_SUCCESS);
	CHECK(cuptiActivityFlushAll(0) != CUPTI_SUCCESS);
	return 0;
}
