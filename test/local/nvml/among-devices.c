/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by their names, and among each other. */
#include <ctype.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

static U count;
static D all[64];

static void open_all(void)
{
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetCount_v2(&count));
	CHECK(count >= 1);
	for (U i = 0; i < count; i++)
		OK(nvmlDeviceGetHandleByIndex_v2(i, &all[i]));
	GIVES(nvmlDeviceGetHandleByIndex_v2(count, &all[count]), NVML_ERROR_INVALID_ARGUMENT);
}

static void finds(const char *id, D expected)
{
	D found = NULL;

	OK(nvmlDeviceGetHandleByPciBusId_v2(id, &found));
	CHECK(found == expected);
	found = NULL;
	OK(nvmlDeviceGetHandleByPciBusId(id, &found));
	CHECK(found == expected);
}

/* In all spellings; and nothing beside it. */
static void bus_ids(D device, const nvmlPciInfo_t *pci)
{
	static const char *const wrong[] = {
		"",       "nonsense", "%X",        "%X:",        "%X:%X:%X:0",  "%X:%X:%X.0x",
		"%X:%X:", "%X:%X:.0", "%X:%X:%X.", "%X:%X:%X.8", "-%X:%X:%X.0", " %X:%X:%X.0"};
	static const char *const right[] = {"%X:%X:%X.0", "%x:%x:%x", "%04x:%02x:%02x.0", "%08X:%02x:%02X",
					    "%012X:%03X:%04x.0"};
	char id[64];
	D found;

	finds(pci->busId, device);
	finds(pci->busIdLegacy, device);
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		snprintf(id, sizeof(id), right[i], pci->domain, pci->bus, pci->device);
		finds(id, device);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(id, sizeof(id), wrong[i], pci->domain, pci->bus, pci->device);
		GIVES(nvmlDeviceGetHandleByPciBusId_v2(id, &found), NVML_ERROR_INVALID_ARGUMENT);
	}
	snprintf(id, sizeof(id), "%X:%X:%X.1", pci->domain, pci->bus, pci->device);
	GIVES(nvmlDeviceGetHandleByPciBusId_v2(id, &found), NVML_ERROR_NOT_FOUND);
	snprintf(id, sizeof(id), "%X:%X:%X.0", pci->domain + 1, pci->bus, pci->device);
	GIVES(nvmlDeviceGetHandleByPciBusId_v2(id, &found), NVML_ERROR_NOT_FOUND);
	/* Without a domain it is domain 0. */
	snprintf(id, sizeof(id), "%X:%X.0", pci->bus, pci->device);
	GIVES(nvmlDeviceGetHandleByPciBusId_v2(id, &found), NVML_ERROR_NOT_FOUND);
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static void uuids(D device)
{
	nvmlUUID_t id = {.version = NVML_VERSION(nvmlUUID_t, 1u), .type = NVML_UUID_TYPE_ASCII};
	D found = NULL;
	char *at;

	OK(nvmlDeviceGetUUID(device, id.value.text, sizeof(id.value.text)));
	OK(nvmlDeviceGetHandleByUUID(id.value.text, &found));
	CHECK(found == device);
	found = NULL;
	OK(nvmlDeviceGetHandleByUUIDV(&id, &found));
	CHECK(found == device);
	at = id.value.text + strlen("GPU-");
	for (int i = 0; i < 16; i++) {
		at += *at == '-';
		id.value.bytes[i] = (unsigned char)(digit(at[0]) << 4 | digit(at[1]));
		at += 2;
	}
	id.type = NVML_UUID_TYPE_BINARY;
	found = NULL;
	OK(nvmlDeviceGetHandleByUUIDV(&id, &found));
	CHECK(found == device);
	id.value.bytes[3] ^= 1;
	GIVES(nvmlDeviceGetHandleByUUIDV(&id, &found), NVML_ERROR_NOT_FOUND);
}

void handles(void)
{
	nvmlPciInfo_t pci;
	U index;

	open_all();
	for (U i = 0; i < count; i++) {
		OK(nvmlDeviceGetIndex(all[i], &index));
		CHECK(index == i);
		OK(nvmlDeviceGetPciInfo_v3(all[i], &pci));
		CHECK(pci.domain == 0x7CDA);
		bus_ids(all[i], &pci);
		uuids(all[i]);
	}
}

/* ---- nearness ---- */

/* The size is asked for; too small a room is refused; a larger one is not filled up. */
static void expect_set(R (*ask)(U of, U *room, D *to), U of, const bool *expected)
{
	D found[65];
	U size = 0, wanted = 0;

	for (U i = 0; i < count; i++)
		wanted += expected[i];
	OK(ask(of, &size, NULL));
	CHECK(size == wanted);
	memset(found, 0, sizeof(found));
	size = 65;
	OK(ask(of, &size, found));
	CHECK(size == wanted && !found[wanted]);
	for (U i = 0, at = 0; i < count; i++)
		CHECK(!expected[i] || found[at++] == all[i]);
	if (wanted > 1) {
		size = wanted - 1;
		GIVES(ask(of, &size, found), NVML_ERROR_INSUFFICIENT_SIZE);
		CHECK(size == wanted);
	}
}

static U level;

static R ask_nearest(U of, U *room, D *to)
{
	return nvmlDeviceGetTopologyNearestGpus(all[of], level, room, to);
}

static void nearest(void)
{
	static const U levels[] = {NVML_TOPOLOGY_INTERNAL,   NVML_TOPOLOGY_SINGLE, NVML_TOPOLOGY_MULTIPLE,
				   NVML_TOPOLOGY_HOSTBRIDGE, NVML_TOPOLOGY_NODE,   NVML_TOPOLOGY_SYSTEM};
	U between[64][64];

	for (U i = 0; i < count; i++)
		for (U k = 0; k < count; k++) {
			OK(nvmlDeviceGetTopologyCommonAncestor(all[i], all[k], &between[i][k]));
			CHECK(between[i][k] == (i == k ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_HOSTBRIDGE));
		}
	for (U i = 0; i < count; i++)
		for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++) {
			bool expected[64];

			level = levels[l];
			for (U k = 0; k < count; k++)
				expected[k] = k != i && between[i][k] == level;
			expect_set(ask_nearest, i, expected);
		}
	GIVES(nvmlDeviceGetTopologyCommonAncestor(all[0], NULL, &level), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetTopologyCommonAncestor(NULL, all[0], &level), NVML_ERROR_INVALID_ARGUMENT);
	GIVES(nvmlDeviceGetTopologyCommonAncestor(all[0], all[0], NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static R ask_processor(U of, U *room, D *to)
{
	return nvmlSystemGetTopologyGpuSet(of, room, to);
}

/* All processors and all memory of this machine are near to a device that is in no slot of it. */
static void affinity(void)
{
	unsigned long set[CPU_SETSIZE / 64 + 1], narrow, nodes = 0;
	long online = sysconf(_SC_NPROCESSORS_ONLN), found = 0;
	cpu_set_t before, own;
	bool every[64];

	for (U i = 0; i < count; i++) {
		memset(set, 0xff, sizeof(set));
		OK(nvmlDeviceGetCpuAffinity(all[i], CPU_SETSIZE / 64, set));
		CHECK(set[CPU_SETSIZE / 64] == ~0ul);
		found = 0;
		for (int w = 0; w < CPU_SETSIZE / 64; w++)
			found += __builtin_popcountl(set[w]);
		CHECK(found == online);
		OK(nvmlDeviceGetCpuAffinityWithinScope(all[i], 1, &narrow, NVML_AFFINITY_SCOPE_NODE));
		CHECK(narrow == set[0]);
		OK(nvmlDeviceGetMemoryAffinity(all[i], 1, &nodes, NVML_AFFINITY_SCOPE_NODE));
		CHECK(nodes & 1);
		every[i] = true;
	}
	expect_set(ask_processor, 0, every);
	memset(every, 0, sizeof(every));
	expect_set(ask_processor, CPU_SETSIZE - 1, every);
	CHECK(!sched_getaffinity(0, sizeof(before), &before));
	CPU_ZERO(&own);
	for (int cpu = 0; !CPU_COUNT(&own); cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &own);
	CHECK(!sched_setaffinity(0, sizeof(own), &own));
	OK(nvmlDeviceSetCpuAffinity(all[0]));
	CHECK(!sched_getaffinity(0, sizeof(own), &own) && CPU_COUNT(&own) >= CPU_COUNT(&before));
	OK(nvmlDeviceClearCpuAffinity(all[0]));
	CHECK(!sched_getaffinity(0, sizeof(own), &own) && CPU_COUNT(&own) >= CPU_COUNT(&before));
}

/* nvidia-smi calls it for its table: 2 is PHB. */
static void private_topology(void)
{
	R (*const *table)(const char *, const char *, U *);
	const void *words;
	nvmlPciInfo_t from, to;
	U shown = 77;

	OK(nvmlInternalGetExportTable(&words, private_table));
	table = words;
	OK(nvmlDeviceGetPciInfo_v3(all[0], &from));
	OK(nvmlDeviceGetPciInfo_v3(all[count - 1], &to));
	OK(table[23](from.busId, to.busId, &shown));
	CHECK(shown == (count > 1 ? 2 : 0));
	GIVES(table[23](from.busId, "0000:01:00.0", &shown), NVML_ERROR_NOT_FOUND);
	GIVES(table[23](from.busId, to.busId, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void boards(void)
{
	int same;

	for (U i = 0; i < count; i++)
		for (U k = 0; k < count; k++) {
			OK(nvmlDeviceOnSameBoard(all[i], all[k], &same));
			CHECK(same == (i == k));
		}
}

void topology(void)
{
	open_all();
	nearest();
	private_topology();
	affinity();
	boards();
}
