/* SPDX-License-Identifier: Apache-2.0 */
/* The memory and the CPUs that control groups leave a process, in made-up trees of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/device/group-limits.h"
#include "test/unit/folder.h"

#define TMPFS "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
#define SECOND(root, point) "32 31 0:29 " root " " point " rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define FIRST(root, point, controllers) "33 31 0:30 " root " " point " rw - cgroup cgroup rw," controllers "\n"

static void put(const char *name, const char *text)
{
	char command[512];

	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s/%s')\" && printf %%s '%s' >'%s/%s'", folder, name,
		 text, folder, name);
	assert_int_equal(system(command), 0);
}

static void set_group(const char *groups, const char *mounts)
{
	put("proc/self/cgroup", groups);
	put("proc/self/mountinfo", mounts);
}

static void version_2(void **state)
{
	(void)state;
	set_group("0::/user.slice/job\n", SECOND("/", "/sys/fs/cgroup"));
	assert_true(softgpu_memory_limit(folder) == UINT64_MAX);
	put("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
	put("sys/fs/cgroup/user.slice/other/memory.max", "1024\n");
	assert_true(softgpu_memory_limit(folder) == UINT64_MAX);
	put("sys/fs/cgroup/user.slice/job/memory.max", "3000000000\n");
	assert_true(softgpu_memory_limit(folder) == 3000000000);
	put("sys/fs/cgroup/user.slice/memory.max", "4000000000\n");
	assert_true(softgpu_memory_limit(folder) == 3000000000);
	put("sys/fs/cgroup/user.slice/memory.max", "2000000000\n");
	assert_true(softgpu_memory_limit(folder) == 2000000000);
	put("sys/fs/cgroup/memory.max", "1000000000\n");
	assert_true(softgpu_memory_limit(folder) == 1000000000);
}

static void version_1(void **state)
{
	(void)state;
	set_group("3:cpu,cpuacct:/elsewhere\n2:hugetlb,memory:/job/part\n0::/\n",
		  TMPFS FIRST("/", "/sys/fs/cgroup/cpu", "cpu,cpuacct")
			  FIRST("/", "/sys/fs/cgroup/mem", "hugetlb,memory") SECOND("/", "/sys/fs/cgroup/unified"));
	put("sys/fs/cgroup/mem/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/mem/job/memory.limit_in_bytes", "5000000000\n");
	put("sys/fs/cgroup/cpu/elsewhere/memory.limit_in_bytes", "1\n");
	put("sys/fs/cgroup/mem/elsewhere/memory.limit_in_bytes", "2\n");
	assert_true(softgpu_memory_limit(folder) == 5000000000);
	put("sys/fs/cgroup/mem/job/part/memory.limit_in_bytes", "6000000000\n");
	assert_true(softgpu_memory_limit(folder) == 5000000000);
	put("sys/fs/cgroup/mem/job/part/memory.limit_in_bytes", "4000000000\n");
	assert_true(softgpu_memory_limit(folder) == 4000000000);
}

/* A container whose mount begins at its own group, or at one beside it; a mount point with a blank. */
static void parts_of_trees(void **state)
{
	(void)state;
	set_group("0::/docker/abc/job\n", SECOND("/docker/abc", "/sys/my\\040groups"));
	put("sys/my groups/job/memory.max", "max");
	put("sys/my groups/memory.max", "7000000000\n");
	put("sys/my groups/docker/abc/memory.max", "1\n");
	put("sys/memory.max", "2\n");
	assert_true(softgpu_memory_limit(folder) == 7000000000);
	set_group("0::/docker/abcd\n", SECOND("/docker/abc", "/sys/my\\040groups"));
	assert_true(softgpu_memory_limit(folder) == UINT64_MAX);
	set_group("0::/docker/abc\n", SECOND("/docker/abc", "/sys/my\\040groups"));
	assert_true(softgpu_memory_limit(folder) == 7000000000);
}

static void cpus_of_version_2(void **state)
{
	(void)state;
	set_group("0::/user.slice/job\n", SECOND("/", "/sys/fs/cgroup"));
	assert_true(softgpu_cpu_limit(folder) == UINT64_MAX);
	put("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
	put("sys/fs/cgroup/user.slice/other/cpu.max", "1 100000\n");
	assert_true(softgpu_cpu_limit(folder) == UINT64_MAX);
	put("sys/fs/cgroup/user.slice/job/cpu.max", "400000 100000\n");
	assert_true(softgpu_cpu_limit(folder) == 4);
	put("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
	assert_true(softgpu_cpu_limit(folder) == 3);
	put("sys/fs/cgroup/cpu.max", "1000 100000\n");
	assert_true(softgpu_cpu_limit(folder) == 1);
}

static void cpus_of_version_1(void **state)
{
	(void)state;
	set_group("3:cpu,cpuacct:/job/part\n2:cpuset:/elsewhere\n",
		  TMPFS FIRST("/", "/sys/fs/cgroup/cpu", "cpu,cpuacct") FIRST("/", "/sys/fs/cgroup/cpuset", "cpuset"));
	put("sys/fs/cgroup/cpuset/elsewhere/cpu.cfs_quota_us", "1\n");
	put("sys/fs/cgroup/cpuset/elsewhere/cpu.cfs_period_us", "1\n");
	put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
	put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
	assert_true(softgpu_cpu_limit(folder) == UINT64_MAX);
	put("sys/fs/cgroup/cpu/job/part/cpu.cfs_quota_us", "150000\n");
	assert_true(softgpu_cpu_limit(folder) == UINT64_MAX);
	put("sys/fs/cgroup/cpu/job/part/cpu.cfs_period_us", "100000\n");
	assert_true(softgpu_cpu_limit(folder) == 2);
	put("sys/fs/cgroup/cpu/job/part/cpu.cfs_period_us", "0\n");
	assert_true(softgpu_cpu_limit(folder) == UINT64_MAX);
}

static void damaged(void **state)
{
	char group[9000];

	(void)state;
	assert_true(softgpu_memory_limit(folder) == UINT64_MAX);
	set_group("", "");
	assert_true(softgpu_memory_limit(folder) == UINT64_MAX);
	set_group("0:\n:::\nx\n0::/job\n",
		  "\n - \n1 2 3 - cgroup2 a b\n1 2 3 / /sys - cgroup2\n" SECOND("/", "/groups"));
	put("groups/job/memory.max", "8000000000\n");
	assert_true(softgpu_memory_limit(folder) == 8000000000);
	memset(group, 'a', sizeof(group));
	memcpy(group, "0::/", 4);
	group[sizeof(group) - 1] = '\0';
	snprintf(group + 100, sizeof(group) - 100, "%s", "/job\n");
	set_group(group, SECOND("/", "/groups"));
	put("groups/memory.max", "9000000000\n");
	assert_true(softgpu_memory_limit(folder) == 9000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(version_2, set_up, tear_down),
		cmocka_unit_test_setup_teardown(version_1, set_up, tear_down),
		cmocka_unit_test_setup_teardown(parts_of_trees, set_up, tear_down),
		cmocka_unit_test_setup_teardown(cpus_of_version_2, set_up, tear_down),
		cmocka_unit_test_setup_teardown(cpus_of_version_1, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damaged, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
