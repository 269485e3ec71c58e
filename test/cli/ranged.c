/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges and marks of NVTX, by its own headers (test-profile.py). Prints what the calls return. */
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *in_thread(void *id)
{
	nvtxRangePushA("in a thread");
	nvtxRangePop();
	nvtxRangeEnd(*(nvtxRangeId_t *)id);
	return NULL;
}

int main(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("a domain");
	nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
	char name[2000] = {0};
	nvtxRangeId_t id;
	pthread_t thread;

	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = nvtxDomainRegisterStringA(domain, "registered");
	printf("%d ", nvtxRangePushA("outer \"q\" \x80\xff\xed\xa0\x80"));
	printf("%d ", nvtxRangePushW(L"wide \u00e4\u20ac"));
	printf("%d ", nvtxDomainRangePushEx(domain, &a));
	nvtxMarkA("a mark");
	/* Each domain has ranges of its own. */
	printf("%d ", nvtxRangePop());
	printf("%d ", nvtxDomainRangePop(domain));
	printf("%d ", nvtxRangePop());
	printf("%d\n", nvtxRangePop());
	id = nvtxRangeStartA("started");
	if (pthread_create(&thread, NULL, in_thread, &id))
		return 1;
	pthread_join(thread, NULL);
	/* Neither is a range. */
	nvtxRangeEnd(id);
	nvtxRangeEnd(12345);
	memset(name, 1, sizeof(name) - 1);
	domain = nvtxDomainCreateA(name);
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = name;
	nvtxDomainMarkEx(domain, &a);
	return 0;
}
