/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/smi/smi.h"

static const char *figure(const struct smi_subject *s, const char *name, char text[256])
{
	const struct smi_field *field = s->process ? smi_app_field_find(name) : smi_field_find(name);

	if (!field->get(s, text, 256))
		strcpy(text, "-");
	return text;
}

static void print_device(const struct smi_subject *s)
{
	char a[256], b[256], c[256], d[256];

	printf("\nGPU %u  %s\n", s->index, figure(s, "name", a));
	printf("  %s  %s  compute %s\n", figure(s, "uuid", a), figure(s, "pci.bus_id", b), figure(s, "compute_cap", c));
	printf("  memory %s of %s MiB  utilization %s %%  temperature %s C\n", figure(s, "memory.used", a),
	       figure(s, "memory.total", b), figure(s, "utilization.gpu", c), figure(s, "temperature.gpu", d));
}

static unsigned int print_processes(struct smi_subject *s)
{
	struct smi_process *processes;
	unsigned int n = smi_processes(s->device, &processes);
	char a[256], b[256], c[256];

	for (unsigned int i = 0; i < n; i++) {
		s->process = &processes[i];
		printf("%5u %9s %9s  %s\n", s->index, figure(s, "pid", a), figure(s, "used_memory", b),
		       figure(s, "process_name", c));
	}
	free(processes);
	s->process = NULL;
	return n;
}

void smi_table_print(unsigned int devices, int only)
{
	char driver[96] = "-";
	unsigned int shown = 0;
	int cuda = 0;

	nvml.SystemGetDriverVersion(driver, sizeof(driver));
	nvml.SystemGetCudaDriverVersion(&cuda);
	printf("virtio-cuda  driver %s  CUDA %d.%d\n", driver, cuda / 1000, cuda % 1000 / 10);
	for (unsigned int i = 0; i < devices; i++) {
		struct smi_subject s = {.index = i};

		if ((only < 0 || (unsigned int)only == i) && !nvml.DeviceGetHandleByIndex_v2(i, &s.device))
			print_device(&s);
	}
	printf("\n%5s %9s %9s  %s\n", "GPU", "PID", "MiB", "process");
	for (unsigned int i = 0; i < devices; i++) {
		struct smi_subject s = {.index = i};

		if ((only < 0 || (unsigned int)only == i) && !nvml.DeviceGetHandleByIndex_v2(i, &s.device))
			shown += print_processes(&s);
	}
	if (!shown)
		puts("      no process computes");
}
