/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda smi -q`: all figures of each device, one a line, under the names that scripts for nvidia-smi look for. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/smi/smi.h"

struct line {
	unsigned int depth;
	const char *title;
	const char *field; /* name in smi-field.c; NULL: a heading */
};

static const struct line device_lines[] = {
	{1, "Product Name", "name"},
	{1, "Persistence Mode", "persistence_mode"},
	{1, "MIG Mode", NULL},
	{2, "Current", "mig.mode.current"},
	{1, "GPU UUID", "uuid"},
	{1, "Compute Capability", "compute_cap"},
	{1, "PCI", NULL},
	{2, "Bus Id", "pci.bus_id"},
	{1, "FB Memory Usage", NULL},
	{2, "Total", "memory.total"},
	{2, "Used", "memory.used"},
	{2, "Free", "memory.free"},
	{1, "Compute Mode", "compute_mode"},
	{1, "Utilization", NULL},
	{2, "Gpu", "utilization.gpu"},
	{2, "Memory", "utilization.memory"},
	{1, "ECC Mode", NULL},
	{2, "Current", "ecc.mode.current"},
	{1, "Temperature", NULL},
	{2, "GPU Current Temp", "temperature.gpu"},
	{1, "Power Readings", NULL},
	{2, "Power Draw", "power.draw"},
	{1, "Max Clocks", NULL},
	{2, "SM", "clocks.max.sm"},
	{2, "Memory", "clocks.max.memory"},
};

static const struct line process_lines[] = {
	{2, "Process ID", "pid"},
	{3, "Name", "process_name"},
	{3, "Used GPU Memory", "used_memory"},
};

#define COLUMN 48

static void print_line(unsigned int depth, const char *title, const char *value, const char *unit)
{
	int indent = 4 * (int)depth;

	printf("%*s%-*s : %s%s%s\n", indent, "", COLUMN - indent, title, value, *unit ? " " : "", unit);
}

static void print_field(const struct line *line, const struct smi_field *field, const struct smi_subject *s)
{
	char text[256];
	bool known = field->get(s, text, sizeof(text));

	print_line(line->depth, line->title, known ? text : "N/A", known ? field->unit : "");
}

static void print_device(struct smi_subject *s)
{
	struct smi_process *processes;
	unsigned int n = smi_processes(s->device, &processes);
	char bus[256] = "?";

	smi_field_find("pci.bus_id")->get(s, bus, sizeof(bus));
	printf("\nGPU %s\n", bus);
	for (size_t i = 0; i < sizeof(device_lines) / sizeof(device_lines[0]); i++)
		if (device_lines[i].field)
			print_field(&device_lines[i], smi_field_find(device_lines[i].field), s);
		else
			printf("%*s%s\n", 4 * (int)device_lines[i].depth, "", device_lines[i].title);
	if (n)
		puts("    Processes");
	else
		print_line(1, "Processes", "None", "");
	for (unsigned int i = 0; i < n; i++) {
		s->process = &processes[i];
		for (size_t k = 0; k < sizeof(process_lines) / sizeof(process_lines[0]); k++)
			print_field(&process_lines[k], smi_app_field_find(process_lines[k].field), s);
	}
	s->process = NULL;
	free(processes);
}

void smi_query_print(unsigned int devices, int only)
{
	char driver[96] = "N/A", number[32], now[64] = "";
	time_t seconds = time(NULL);
	struct tm local;
	int cuda = 0;

	nvml.SystemGetDriverVersion(driver, sizeof(driver));
	nvml.SystemGetCudaDriverVersion(&cuda);
	if (localtime_r(&seconds, &local))
		strftime(now, sizeof(now), "%a %b %e %H:%M:%S %Y", &local);
	print_line(0, "Timestamp", now, "");
	print_line(0, "Driver Version", driver, "");
	snprintf(number, sizeof(number), "%d.%d", cuda / 1000, cuda % 1000 / 10);
	print_line(0, "CUDA Version", number, "");
	snprintf(number, sizeof(number), "%u", devices);
	print_line(0, "Attached GPUs", number, "");
	for (unsigned int i = 0; i < devices; i++) {
		struct smi_subject s = {.index = i};

		if ((only < 0 || (unsigned int)only == i) && !nvml.DeviceGetHandleByIndex_v2(i, &s.device))
			print_device(&s);
	}
}
