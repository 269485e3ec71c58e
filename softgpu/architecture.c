/* SPDX-License-Identifier: Apache-2.0 */
#include "architecture.h"

#include <stddef.h>

/* From the PTX ISA; test/ptx/targets.txt has the answers of NVIDIA's ptxas. */
static const struct softgpu_architecture architectures[] = {
	{10, 10, 0, 0, 0, 0},      {11, 10, 0, 0, 0, 0},      {12, 13, 0, 0, 0, 0},        {13, 12, 0, 0, 0, 0},
	{20, 20, 0, 0, 0, 0},      {21, 20, 0, 0, 0, 0},      {30, 30, 0, 0, 0, 0},        {32, 40, 0, 0, 0, 0},
	{35, 31, 0, 0, 0, 0},      {37, 41, 0, 0, 0, 0},      {50, 40, 0, 0, 0, 0},        {52, 41, 0, 0, 0, 0},
	{53, 42, 0, 0, 0, 0},      {60, 50, 0, 0, 0, 0},      {61, 50, 0, 0, 0, 0},        {62, 50, 0, 0, 0, 0},
	{70, 60, 0, 0, 0, 0},      {72, 61, 0, 0, 0, 0},      {75, 63, 0, 0, 0, 0},        {80, 70, 0, 0, 0, 0},
	{86, 71, 0, 0, 0, 0},      {87, 74, 0, 0, 0, 0},      {88, 73, 0, 0, 0, 0},        {89, 78, 0, 0, 0, 0},
	{90, 78, 80, 0, 0, 0},     {100, 86, 86, 88, 100, 0}, {101, 86, 86, 88, 110, 110}, {103, 88, 88, 88, 100, 0},
	{110, 90, 90, 90, 110, 0}, {120, 87, 87, 88, 120, 0}, {121, 88, 88, 88, 120, 0},
};

/* From NVIDIA's programming guides and cuda_occupancy.h. */
static const struct softgpu_limits limits[] = {
	/* from, shared memory, of a block, threads, blocks, registers, of a block */
	{30, 48, 48, 2048, 16, 64, 64},    {32, 48, 48, 2048, 16, 64, 32},    {35, 48, 48, 2048, 16, 64, 64},
	{37, 112, 48, 2048, 16, 128, 64},  {50, 64, 48, 2048, 32, 64, 64},    {52, 96, 48, 2048, 32, 64, 64},
	{53, 64, 48, 2048, 32, 64, 32},    {60, 64, 48, 2048, 32, 64, 64},    {61, 96, 48, 2048, 32, 64, 64},
	{62, 64, 48, 2048, 32, 64, 32},    {70, 96, 96, 2048, 32, 64, 64},    {75, 64, 64, 1024, 16, 64, 64},
	{80, 164, 163, 2048, 32, 64, 64},  {86, 100, 99, 1536, 16, 64, 64},   {87, 164, 163, 1536, 16, 64, 64},
	{88, 100, 99, 1536, 16, 64, 64},   {89, 100, 99, 1536, 24, 64, 64},   {90, 228, 227, 2048, 32, 64, 64},
	{101, 228, 227, 1536, 24, 64, 64}, {103, 228, 227, 2048, 32, 64, 64}, {110, 228, 227, 1536, 24, 64, 64},
	{120, 100, 99, 1536, 24, 64, 64},
};

/* The PTX version of each CUDA version, where it changed. */
static const struct {
	int cuda;
	unsigned ptx;
} newest[] = {
	{13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85}, {12040, 84}, {12030, 83},
	{12020, 82}, {12010, 81}, {12000, 80}, {11080, 78}, {11070, 77}, {11060, 76}, {11050, 75},
};

const struct softgpu_architecture *softgpu_architecture(unsigned number)
{
	for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++)
		if (architectures[i].number == number)
			return &architectures[i];
	return NULL;
}

const struct softgpu_limits *softgpu_architecture_limits(unsigned number)
{
	size_t i = sizeof(limits) / sizeof(limits[0]) - 1;

	while (i && limits[i].from > number)
		i--;
	return &limits[i];
}

unsigned softgpu_architecture_reserved_shared(unsigned number)
{
	return number >= 80 ? 1024 : 0;
}

unsigned softgpu_architecture_shared_unit(unsigned number)
{
	return number >= 80 ? 128 : 256;
}

unsigned softgpu_architecture_parts(unsigned number)
{
	return number == 60 ? 2 : 4;
}

static unsigned present_name(const struct softgpu_architecture *a)
{
	return a->renamed ? a->renamed : a->number;
}

bool softgpu_architecture_runs(unsigned device, unsigned target, char suffix)
{
	const struct softgpu_architecture *d = softgpu_architecture(device), *t = softgpu_architecture(target);

	if (!suffix)
		return target <= device;
	if (!d || !t)
		return false;
	if (suffix == 'a')
		return t->version_a && present_name(t) == present_name(d);
	return t->version_f && t->family == d->family && target <= device;
}

bool softgpu_architecture_runs_code(unsigned device, unsigned target, char suffix)
{
	return softgpu_architecture_runs(device, target, suffix) && (suffix || target / 10 == device / 10);
}

unsigned softgpu_architecture_ptx(int cuda)
{
	size_t i = 0, last = sizeof(newest) / sizeof(newest[0]) - 1;

	while (i < last && newest[i].cuda > cuda)
		i++;
	return newest[i].ptx;
}
