/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/smi/smi.h"

#define MIB (1ull << 20)

static bool put(char *text, size_t size, bool known, unsigned long long number)
{
	snprintf(text, size, "%llu", number);
	return known;
}

static bool get_name(const struct smi_subject *s, char *text, size_t size)
{
	return !nvml.DeviceGetName(s->device, text, (unsigned int)size);
}

static bool get_uuid(const struct smi_subject *s, char *text, size_t size)
{
	return !nvml.DeviceGetUUID(s->device, text, (unsigned int)size);
}

static bool get_index(const struct smi_subject *s, char *text, size_t size)
{
	return put(text, size, true, s->index);
}

static bool get_count(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int count;

	return !nvml.DeviceGetCount_v2(&count) && put(text, size, true, count);
}

static bool get_driver(const struct smi_subject *s, char *text, size_t size)
{
	return !nvml.SystemGetDriverVersion(text, (unsigned int)size);
}

static bool get_bus_id(const struct smi_subject *s, char *text, size_t size)
{
	nvmlPciInfo_t pci;

	if (nvml.DeviceGetPciInfo_v3(s->device, &pci))
		return false;
	snprintf(text, size, "%s", pci.busId);
	return true;
}

static bool get_total(const struct smi_subject *s, char *text, size_t size)
{
	nvmlMemory_t m;

	return !nvml.DeviceGetMemoryInfo(s->device, &m) && put(text, size, true, m.total / MIB);
}

static bool get_used(const struct smi_subject *s, char *text, size_t size)
{
	nvmlMemory_t m;

	return !nvml.DeviceGetMemoryInfo(s->device, &m) && put(text, size, true, (m.used + MIB - 1) / MIB);
}

static bool get_free(const struct smi_subject *s, char *text, size_t size)
{
	nvmlMemory_t m;

	return !nvml.DeviceGetMemoryInfo(s->device, &m) && put(text, size, true, m.free / MIB);
}

static bool get_utilization(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int rates[2];

	return !nvml.DeviceGetUtilizationRates(s->device, rates) && put(text, size, true, rates[0]);
}

static bool get_memory_utilization(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int rates[2];

	return !nvml.DeviceGetUtilizationRates(s->device, rates) && put(text, size, true, rates[1]);
}

static bool get_temperature(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int degrees;

	return !nvml.DeviceGetTemperature(s->device, 0, &degrees) && put(text, size, true, degrees);
}

static bool get_power(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int milliwatts;

	if (nvml.DeviceGetPowerUsage(s->device, &milliwatts))
		return false;
	snprintf(text, size, "%.2f", milliwatts / 1000.0);
	return true;
}

static bool get_capability(const struct smi_subject *s, char *text, size_t size)
{
	int major, minor;

	if (nvml.DeviceGetCudaComputeCapability(s->device, &major, &minor))
		return false;
	snprintf(text, size, "%d.%d", major, minor);
	return true;
}

static bool put_mode(nvmlReturn_t result, unsigned int mode, char *text, size_t size)
{
	snprintf(text, size, "%s", mode ? "Enabled" : "Disabled");
	return result == NVML_SUCCESS;
}

static bool get_compute_mode(const struct smi_subject *s, char *text, size_t size)
{
	static const char *const names[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
	unsigned int mode;

	if (nvml.DeviceGetComputeMode(s->device, &mode) || mode >= sizeof(names) / sizeof(names[0]))
		return false;
	snprintf(text, size, "%s", names[mode]);
	return true;
}

static bool get_persistence(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int mode = 0;

	return put_mode(nvml.DeviceGetPersistenceMode(s->device, &mode), mode, text, size);
}

static bool get_ecc(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int mode = 0, pending;

	return put_mode(nvml.DeviceGetEccMode(s->device, &mode, &pending), mode, text, size);
}

static bool get_mig(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int mode = 0, pending;

	return put_mode(nvml.DeviceGetMigMode(s->device, &mode, &pending), mode, text, size);
}

static bool get_clock(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int mhz;

	return !nvml.DeviceGetMaxClockInfo(s->device, NVML_CLOCK_SM, &mhz) && put(text, size, true, mhz);
}

static bool get_memory_clock(const struct smi_subject *s, char *text, size_t size)
{
	unsigned int mhz;

	return !nvml.DeviceGetMaxClockInfo(s->device, NVML_CLOCK_MEM, &mhz) && put(text, size, true, mhz);
}

/* Names that nvidia-smi has too. */
static const struct smi_field fields[] = {
	{"index", "", get_index},
	{"count", "", get_count},
	{"name", "", get_name},
	{"gpu_name", "", get_name},
	{"uuid", "", get_uuid},
	{"gpu_uuid", "", get_uuid},
	{"driver_version", "", get_driver},
	{"pci.bus_id", "", get_bus_id},
	{"gpu_bus_id", "", get_bus_id},
	{"memory.total", "MiB", get_total},
	{"memory.used", "MiB", get_used},
	{"memory.free", "MiB", get_free},
	{"utilization.gpu", "%", get_utilization},
	{"utilization.memory", "%", get_memory_utilization},
	{"temperature.gpu", "", get_temperature},
	{"power.draw", "W", get_power},
	{"compute_cap", "", get_capability},
	{"compute_mode", "", get_compute_mode},
	{"persistence_mode", "", get_persistence},
	{"ecc.mode.current", "", get_ecc},
	{"mig.mode.current", "", get_mig},
	{"clocks.max.sm", "MHz", get_clock},
	{"clocks.max.memory", "MHz", get_memory_clock},
};

static bool get_pid(const struct smi_subject *s, char *text, size_t size)
{
	return put(text, size, true, s->process->info.pid);
}

static bool get_process_name(const struct smi_subject *s, char *text, size_t size)
{
	snprintf(text, size, "%s", s->process->name);
	return *text;
}

static bool get_process_memory(const struct smi_subject *s, char *text, size_t size)
{
	unsigned long long bytes = s->process->info.usedGpuMemory;

	return put(text, size, bytes != UINT64_MAX, (bytes + MIB - 1) / MIB);
}

static const struct smi_field app_fields[] = {
	{"pid", "", get_pid},
	{"process_name", "", get_process_name},
	{"name", "", get_process_name},
	{"used_gpu_memory", "MiB", get_process_memory},
	{"used_memory", "MiB", get_process_memory},
	{"gpu_uuid", "", get_uuid},
	{"gpu_name", "", get_name},
	{"gpu_bus_id", "", get_bus_id},
};

const struct smi_field *smi_field_find(const char *name)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

const struct smi_field *smi_app_field_find(const char *name)
{
	for (size_t i = 0; i < sizeof(app_fields) / sizeof(app_fields[0]); i++)
		if (!strcmp(app_fields[i].name, name))
			return &app_fields[i];
	return NULL;
}

void smi_fields_print(FILE *out)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		fprintf(out, "%s%s",
			i % 6 ? ", "
			: i   ? ",\n                           "
			      : "\n                           ",
			fields[i].name);
}

unsigned int smi_processes(nvmlDevice_t device, struct smi_process **processes)
{
	enum { ROOM = 1024 };
	nvmlProcessInfo_t *infos = calloc(ROOM, sizeof(*infos));
	unsigned int count = ROOM;

	*processes = calloc(ROOM, sizeof(**processes));
	if (!infos || !*processes || nvml.DeviceGetComputeRunningProcesses_v3(device, &count, infos))
		count = 0;
	for (unsigned int i = 0; i < count; i++) {
		(*processes)[i].info = infos[i];
		if (nvml.SystemGetProcessName(infos[i].pid, (*processes)[i].name, sizeof((*processes)[i].name)))
			(*processes)[i].name[0] = 0;
	}
	free(infos);
	return count;
}
