/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which PTX targets there are, since which version, and which devices run them, against the answers of NVIDIA's ptxas.
 *
 * usage: test-ptx-targets targets.txt
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softgpu/architecture.h"
#include "softgpu/ptx/ptx-dialect.h"

#define EARLIEST 31 /* version that ptxas takes */
#define MAX_DEVICES 32

static const char *path;
static unsigned devices[MAX_DEVICES], device_count, probes, different;

static void expect(const char *target, const char *what, unsigned number, bool got, bool expected)
{
	probes++;
	if (got == expected)
		return;
	different++;
	print_message("%s, %s %u: %s\n", target, what, number, got ? "taken" : "refused");
}

/* Numbers up to the line's end. */
static unsigned read_numbers(const char *at, unsigned *numbers)
{
	unsigned count = 0;
	char *end;

	for (; count < MAX_DEVICES; at = end) {
		numbers[count] = (unsigned)strtoul(at, &end, 10);
		if (end == at)
			break;
		count++;
	}
	return count;
}

static bool has(const unsigned *numbers, unsigned count, unsigned number)
{
	for (unsigned i = 0; i < count; i++)
		if (numbers[i] == number)
			return true;
	return false;
}

static void compare_versions(const char *target, struct ptx_dialect d, unsigned least)
{
	for (d.version = EARLIEST; d.version <= 90; d.version++)
		expect(target, "version", d.version, ptx_dialect_has_target(&d), least && d.version >= least);
}

static void compare(const char *target, const char *rest)
{
	unsigned numbers[MAX_DEVICES], count = read_numbers(rest, numbers);
	struct ptx_dialect d = {0};

	assert_true(count > 0);
	assert_true(ptx_dialect_target(&d, target, strlen(target)));
	compare_versions(target, d, numbers[0]);
	for (unsigned i = 0; i < device_count; i++)
		expect(target, "device", devices[i], softgpu_architecture_runs(devices[i], d.target, d.suffix),
		       has(numbers + 1, count - 1, devices[i]));
}

static void targets_are_as_ptxas_has_them(void **state)
{
	FILE *f = fopen(path, "re");
	char line[256], target[16];
	int length;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || sscanf(line, "%15s%n", target, &length) != 1)
			continue;
		if (strcmp(target, "devices"))
			compare(target, line + length);
		else
			device_count = read_numbers(line + length, devices);
	}
	fclose(f);
	print_message("%u probes, %u differ\n", probes, different);
	assert_true(device_count && probes > 1000);
	assert_int_equal(different, 0);
}

/* A toolkit knows the default device. */
static void default_is_a_device_of_ptxas(void **state)
{
	assert_true(has(devices, device_count, SOFTGPU_DEFAULT_ARCHITECTURE));
	for (unsigned i = 0; i < device_count; i++)
		assert_non_null(softgpu_architecture(devices[i]));
	assert_null(softgpu_architecture(130));
}

static void drivers_take_ptx_up_to_their_own(void **state)
{
	assert_int_equal(softgpu_architecture_ptx(13000), 90);
	assert_int_equal(softgpu_architecture_ptx(12090), 88);
	assert_int_equal(softgpu_architecture_ptx(12060), 85);
	assert_int_equal(softgpu_architecture_ptx(12000), 80);
	assert_int_equal(softgpu_architecture_ptx(13090), 90);
	assert_int_equal(softgpu_architecture_ptx(1000), 75);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_are_as_ptxas_has_them),
		cmocka_unit_test(default_is_a_device_of_ptxas),
		cmocka_unit_test(drivers_take_ptx_up_to_their_own),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: test-ptx-targets targets.txt\n");
		return 2;
	}
	path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
