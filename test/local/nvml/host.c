/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the host's library, which is test/vhost/fake-driver/nvidia-ml.c: all of them, where vcudad lets guests
 * have them, and those of the hardware else.
 */
#include <string.h>
#include <unistd.h>

#include "parts.h"
#include "protocol/cuda-functions.h"

/* The links of a device. */
enum { TO_PEER, TO_STRANGER, TO_SWITCH, DOWN, LINKS };

static D devices[2];

static void hardware(void)
{
	nvmlFieldValue_t fields[3] = {{.fieldId = 91}, {.fieldId = 164, .scopeId = 3}, {.fieldId = 90}};
	U value, most;
	int enabled;

	OK(nvmlDeviceGetBrand(devices[0], &value));
	CHECK(value == 14);
	OK(nvmlDeviceGetNumGpuCores(devices[0], &value));
	CHECK(value == 16896);
	OK(nvmlDeviceGetPcieLinkMaxSpeed(devices[0], &value));
	CHECK(value == 5);
	OK(nvmlDeviceGetPowerManagementLimitConstraints(devices[0], &value, &most));
	CHECK(value == 200000 && most == 700000);
	OK(nvmlDeviceGetTopologyCommonAncestor(devices[0], devices[1], &value));
	CHECK(value == NVML_TOPOLOGY_SINGLE);
	OK(nvmlDeviceGetFieldValues(devices[0], 3, fields));
	CHECK(!fields[0].nvmlReturn && fields[0].value == 9100 && fields[0].valueType == 3);
	CHECK(!fields[1].nvmlReturn && fields[1].value == 16403);
	CHECK(fields[2].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
	/* The mode after a reset is the host's answer. */
	OK(cuInit(0));
	OK(cuDeviceGetAttribute(&enabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0));
	OK(nvmlDeviceGetEccMode(devices[0], &value, &most));
	CHECK(value == (U)enabled && most == 200);
	/* The host's library lacks this one. */
	GIVES(nvmlDeviceGetMaxPcieLinkWidth(devices[0], &value), NVML_ERROR_NOT_SUPPORTED);
}

/* Nothing is told of a link to a GPU that is another's. */
static void links(void)
{
	/* Speeds and states of links; the first fields are those of links 0 and on. */
	nvmlFieldValue_t fields[4] = {{.fieldId = 84 + TO_STRANGER},
				      {.fieldId = 165, .scopeId = TO_STRANGER},
				      {.fieldId = 84 + TO_PEER},
				      {.fieldId = 165, .scopeId = TO_SWITCH}};
	nvmlPciInfo_t remote, peer;
	U value;

	OK(nvmlDeviceGetPciInfo_v3(devices[1], &peer));
	OK(nvmlDeviceGetNvLinkState(devices[0], TO_PEER, &value));
	CHECK(value == 1);
	OK(nvmlDeviceGetNvLinkVersion(devices[0], TO_PEER, &value));
	CHECK(value == 4);
	OK(nvmlDeviceGetNvLinkCapability(devices[0], TO_PEER, 2, &value));
	CHECK(value == 1);
	OK(nvmlDeviceGetNvLinkCapability(devices[0], TO_PEER, 3, &value));
	CHECK(value == 0);
	OK(nvmlDeviceGetNvLinkRemoteDeviceType(devices[0], TO_PEER, &value));
	CHECK(value == 0);
	memset(&remote, 0xee, sizeof(remote));
	OK(nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], TO_PEER, &remote));
	CHECK(!strcmp(remote.busId, peer.busId) && remote.bus == peer.bus && remote.domain == peer.domain);
	memset(&remote, 0xee, sizeof(remote));
	OK(nvmlDeviceGetNvLinkRemotePciInfo(devices[0], TO_PEER, &remote));
	CHECK(!strcmp(remote.busIdLegacy, peer.busIdLegacy) && (unsigned char)remote.busId[0] == 0xee);
	GIVES(nvmlDeviceGetNvLinkState(devices[0], TO_STRANGER, &value), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetNvLinkVersion(devices[0], TO_STRANGER, &value), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetNvLinkRemoteDeviceType(devices[0], TO_STRANGER, &value), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], TO_STRANGER, &remote), NVML_ERROR_NOT_SUPPORTED);
	OK(nvmlDeviceGetFieldValues(devices[0], 4, fields));
	CHECK(fields[0].nvmlReturn == NVML_ERROR_NOT_SUPPORTED && fields[1].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
	CHECK(!fields[2].nvmlReturn && !fields[3].nvmlReturn);
	OK(nvmlDeviceGetNvLinkState(devices[0], TO_SWITCH, &value));
	CHECK(value == 1);
	OK(nvmlDeviceGetNvLinkRemoteDeviceType(devices[0], TO_SWITCH, &value));
	CHECK(value == 2);
	OK(nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], TO_SWITCH, &remote));
	CHECK(!strcmp(remote.busId, "FFFFFFFF:FF:FF.0") && remote.bus == 0xff);
	OK(nvmlDeviceGetNvLinkState(devices[0], DOWN, &value));
	CHECK(value == 0);
	GIVES(nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], DOWN, &remote), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetNvLinkState(devices[0], LINKS, &value), NVML_ERROR_INVALID_ARGUMENT);
}

/* nvidia-smi calls these for its matrix: two links, one to the device itself and one to a switch. */
static void matrix(void)
{
	R (*const *table)(const char *, const char *, U *);
	nvmlPciInfo_t from, to;
	const void *words;
	U shown;

	OK(nvmlInternalGetExportTable(&words, private_table));
	table = words;
	OK(nvmlDeviceGetPciInfo_v3(devices[0], &from));
	OK(nvmlDeviceGetPciInfo_v3(devices[1], &to));
	OK(table[23](from.busId, to.busId, &shown));
	CHECK(shown == 4 + 2);
}

static void shared(void)
{
	nvmlFieldValue_t fields[2] = {{.fieldId = 186, .scopeId = 1}, {.fieldId = 200}};
	nvmlUtilization_t rates;
	U value, more[3];
	ULL large;

	OK(nvmlDeviceGetUtilizationRates(devices[0], &rates));
	CHECK(rates.gpu == 42 && rates.memory == 24);
	OK(nvmlDeviceGetPowerUsage(devices[0], &value));
	CHECK(value == 123456);
	OK(nvmlDeviceGetPcieSpeed(devices[0], &value));
	CHECK(value == 32000);
	OK(nvmlDeviceGetTotalEnergyConsumption(devices[0], &large));
	CHECK(large == 0x1234567890ull);
	OK(nvmlDeviceGetCurrentClocksThrottleReasons(devices[0], &large));
	CHECK(large == 0x100000001ull);
	for (U i = 0; i < 2; i++) {
		OK(nvmlDeviceGetTemperature(devices[i], NVML_TEMPERATURE_GPU, &value));
		CHECK(value == 51 + i);
	}
	OK(nvmlDeviceGetClock(devices[0], NVML_CLOCK_MEM, NVML_CLOCK_ID_BOOST, &value));
	CHECK(value == 1023);
	OK(nvmlDeviceGetTotalEccErrors(devices[0], 1, 0, &large));
	CHECK(large == 72);
	OK(nvmlDeviceGetMemoryErrorCounter(devices[0], 1, 0, 7, &large));
	CHECK(large == 1007);
	OK(nvmlDeviceGetRemappedRows(devices[0], &value, &more[0], &more[1], &more[2]));
	CHECK(value == 1 && more[0] == 2 && more[1] == 3 && more[2] == 4);
	OK(nvmlDeviceGetFieldValues(devices[0], 2, fields));
	CHECK(!fields[0].nvmlReturn && fields[0].value == 18601);
	/* A field that is neither of the hardware nor of the figures that may be told. */
	CHECK(fields[1].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
}

static void not_shared(void)
{
	nvmlFieldValue_t field = {.fieldId = 186};
	nvmlUtilization_t rates;
	U value, more[3];
	ULL large;

	GIVES(nvmlDeviceGetUtilizationRates(devices[0], &rates), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetPowerUsage(devices[0], &value), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetPcieSpeed(devices[0], &value), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetTotalEnergyConsumption(devices[0], &large), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetCurrentClocksThrottleReasons(devices[0], &large), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetTemperature(devices[0], NVML_TEMPERATURE_GPU, &value), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetClock(devices[0], 0, 0, &value), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetTotalEccErrors(devices[0], 1, 0, &large), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetMemoryErrorCounter(devices[0], 1, 0, 7, &large), NVML_ERROR_NOT_SUPPORTED);
	GIVES(nvmlDeviceGetRemappedRows(devices[0], &value, &more[0], &more[1], &more[2]), NVML_ERROR_NOT_SUPPORTED);
	OK(nvmlDeviceGetFieldValues(devices[0], 1, &field));
	CHECK(field.nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
}

/* The host has samples of all processes. This one's worker has a number near its own. */
static void samples(bool allowed)
{
	nvmlProcessUtilizationSample_t all[4];
	CUcontext context;
	R result = NVML_ERROR_NOT_FOUND;
	ULL after = 0;
	U room;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	for (ULL far = 0; allowed && result == NVML_ERROR_NOT_FOUND; far++) {
		CHECK(far < 10000);
		after = (ULL)getpid() / 1000 * 1000 + (far % 2 ? -(far / 2 + 1) : far / 2) * 1000;
		room = 4;
		if (after < 1ull << 32)
			result = nvmlDeviceGetProcessUtilization(devices[0], all, &room, after);
	}
	room = 4;
	if (!allowed) {
		GIVES(nvmlDeviceGetProcessUtilization(devices[0], all, &room, after), NVML_ERROR_NOT_SUPPORTED);
		return;
	}
	OK(nvmlDeviceGetProcessUtilization(devices[0], all, &room, after));
	CHECK(room == 1 && all[0].pid == (U)getpid() && all[0].smUtil == 61 && all[0].memUtil == 17 &&
	      all[0].timeStamp == after + 1);
}

void host(const char *allowed)
{
	bool all = !strcmp(allowed, "allowed");

	OK(nvmlInit_v2());
	for (U i = 0; i < 2; i++)
		OK(nvmlDeviceGetHandleByIndex_v2(i, &devices[i]));
	hardware();
	links();
	matrix();
	if (all)
		shared();
	else
		not_shared();
	samples(all);
}
