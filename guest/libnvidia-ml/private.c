/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of private functions that nvidia-smi asks for. Without the table nvidia-smi says that its version and the
 * library's do not match. Its calls were seen with nvidia-smi 535.309, 550.163 and 555.58, which use the same words: 26
 * writes a log, 81 gets at devices in another way (nvidia-smi goes on without both), 72 is for `pmon` and `dmon`. All
 * that is not here refuses.
 */
#include <string.h>

#include "nvml.h"

enum {
	WORD_TOPOLOGY = 23,
	WORD_COMPUTE_PROCESSES = 213,
	WORD_GRAPHICS_PROCESSES,
	WORD_MPS_PROCESSES,
	WORDS = 512,
};

static nvmlReturn_t refuse(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	return (nvmlReturn_t)nvml_refuse("a private function of nvmlInternalGetExportTable", &said);
}

/* ---- topology ---- */

/* nvidia-smi shows PIX, PXB, PHB, NODE, SYS, and from there on the number of links. */
enum { SHOWN_PIX, SHOWN_PXB, SHOWN_PHB, SHOWN_NODE, SHOWN_SYS };

static unsigned int shown(unsigned int level)
{
	return level <= NVML_TOPOLOGY_SINGLE       ? SHOWN_PIX
	       : level <= NVML_TOPOLOGY_MULTIPLE   ? SHOWN_PXB
	       : level <= NVML_TOPOLOGY_HOSTBRIDGE ? SHOWN_PHB
	       : level <= NVML_TOPOLOGY_NODE       ? SHOWN_NODE
						   : SHOWN_SYS;
}

/* Links that lead to the peer, or to a switch. */
static unsigned int count_links(int from, int to)
{
	unsigned int count = 0;

	for (uint32_t link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
		const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS] = {link};
		uint64_t values[VCUDA_FIGURE_VALUES];
		nvmlReturn_t result = nvml_figure(from, VCUDA_FIGURE_LINK_REMOTE, arguments, values);

		if (result == NVML_ERROR_INVALID_ARGUMENT)
			break;
		if (result == NVML_SUCCESS && (values[0] == (uint64_t)to || values[0] == VCUDA_FIGURE_FOREIGN))
			count++;
	}
	return count;
}

static nvmlReturn_t topology(const char *id, const char *peer_id, unsigned int *to)
{
	nvmlDevice_t device, peer;
	unsigned int level, links;
	int from, other;
	nvmlReturn_t result = nvmlDeviceGetHandleByPciBusId_v2(id, &device);

	if (result == NVML_SUCCESS)
		result = nvmlDeviceGetHandleByPciBusId_v2(peer_id, &peer);
	if (result == NVML_SUCCESS)
		result = nvmlDeviceGetTopologyCommonAncestor(device, peer, &level);
	if (result == NVML_SUCCESS)
		result = nvml_require_device(device, &from);
	if (result == NVML_SUCCESS)
		result = nvml_require_device(peer, &other);
	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	links = count_links(from, other);
	*to = links ? SHOWN_SYS + links : shown(level);
	return NVML_SUCCESS;
}

/* ---- processes ---- */

struct process {
	unsigned int pid;
	unsigned long long bytes;
	unsigned int instances[2];
	unsigned long long protected_bytes; /* by its place; always 0 */
	char name[4096];
};

_Static_assert(sizeof(struct process) == 4128, "as nvidia-smi has them");

static nvmlReturn_t processes(nvmlDevice_t device, unsigned int *count, struct process *to)
{
	struct nvml_processes p;
	unsigned int room;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = nvml_error_of(nvml_client_processes(index, &p));
	if (result != NVML_SUCCESS)
		return result;
	room = to ? *count : 0;
	*count = p.count;
	if (room < p.count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (uint32_t i = 0; i < p.count; i++) {
		to[i] = (struct process){.pid = p.pids[i], .bytes = p.bytes[i], .instances = {0xffffffff, 0xffffffff}};
		nvmlSystemGetProcessName(p.pids[i], to[i].name, sizeof(to[i].name));
	}
	return NVML_SUCCESS;
}

/* ---- the table ---- */

static const unsigned char smi_table[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
					    0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

static void *words[WORDS];

__attribute__((constructor)) static void fill(void)
{
	/* As in CUDA's tables the first word is the size in bytes. */
	words[0] = (void *)sizeof(words);
	for (unsigned int i = 1; i < WORDS; i++)
		words[i] = (void *)refuse;
	words[WORD_TOPOLOGY] = (void *)topology;
	words[WORD_COMPUTE_PROCESSES] = (void *)processes;
	words[WORD_GRAPHICS_PROCESSES] = (void *)nvml_no_processes;
	words[WORD_MPS_PROCESSES] = (void *)nvml_no_processes;
}

NVML_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **table, const unsigned char id[16])
{
	if (!table || !id)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (memcmp(id, smi_table, sizeof(smi_table)))
		return NVML_ERROR_NOT_SUPPORTED;
	*table = words;
	return NVML_SUCCESS;
}
