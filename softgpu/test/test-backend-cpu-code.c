/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice between the PTX and the machine code of an image. Argument: auto, ptx or sass, the value of VCUDA_CPU_CODE; missing:
 * auto, without the library that translates machine code; new: auto, on a device of compute capability 12.0.
 */
#include "softgpu/test/backend-cpu-test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "softgpu/test/sass-sample.h"

enum { PTX = 1, ELF = 2 };
#define FLAG_SPECIFIC 0x100000u
#define ENTRY_BYTES 64

static const char *mode;
static bool translates; /* the library is there, and is to be used */
static char text_log[4096];

/* A container that grows. */
static struct {
	uint64_t magic, bytes;
	char data[40000];
} fatbin;

static size_t filled; /* bytes of all containers */

static char *container;

static void begin_container(void)
{
	static const uint64_t head[2] = {0xba55ed50ull | 1ull << 32 | 16ull << 48, 0};

	container = (char *)&fatbin + filled;
	memcpy(container, head, sizeof(head));
	filled += sizeof(head);
}

static void begin_fatbin(void)
{
	memset(&fatbin, 0, sizeof(fatbin));
	filled = 0;
	begin_container();
}

static void add_entry(uint16_t kind, uint32_t architecture, uint32_t flags, const void *data, size_t bytes)
{
	uint32_t entry[ENTRY_BYTES / 4] = {kind | 0x101u << 16, ENTRY_BYTES, (uint32_t)(bytes + 7) & ~7u};
	uint64_t all;

	entry[7] = architecture;
	entry[10] = flags;
	assert_true(filled + ENTRY_BYTES + bytes + 8 <= sizeof(fatbin));
	memcpy((char *)&fatbin + filled, entry, ENTRY_BYTES);
	memcpy((char *)&fatbin + filled + ENTRY_BYTES, data, bytes);
	filled += ENTRY_BYTES + entry[2];
	memcpy(&all, container + 8, sizeof(all));
	all += ENTRY_BYTES + entry[2];
	memcpy(container + 8, &all, sizeof(all));
}

/* Code for an architecture, with a variable whose name has that in it: roNN. */
static struct sass_sample code_for(unsigned int architecture)
{
	struct sass_sample s = sass_sample();
	char name[8];

	snprintf(name, sizeof(name), "ro%02u", architecture % 100);
	memcpy(s.strings + s.symbols[SAMPLE_ROOM].st_name, name, 4);
	s.head.e_flags = architecture << 8;
	return s;
}

static void add_code(unsigned int architecture, uint32_t flags)
{
	struct sass_sample s = code_for(architecture);

	add_entry(ELF, architecture, flags, &s, sizeof(s));
}

static void add_ptx(uint32_t architecture)
{
	add_entry(PTX, architecture, 0, backend_ptx, strlen(backend_ptx) + 1);
}

static CUresult load_image(const void *image, size_t bytes, CUmodule *module)
{
	CUresult result;

	memset(text_log, 0, sizeof(text_log));
	vcuda_log_capture(text_log, sizeof(text_log));
	vcuda_cpu_set_image_bound(bytes);
	result = cuda->cuModuleLoadData(module, image);
	vcuda_log_capture(NULL, 0);
	return result;
}

static void logged(const char *part)
{
	if (!strstr(text_log, part))
		fail_msg("the log has no `%s`: %s", part, text_log);
}

/* The image is taken, and has this variable. */
static void taken(const char *variable)
{
	CUmodule module;
	CUdeviceptr p;

	if (load_image(&fatbin, filled, &module) != CUDA_SUCCESS)
		fail_msg("%s: not loaded: %s", variable, text_log);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, variable), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

static void refused(CUresult result, const char *why)
{
	CUmodule module;

	assert_int_equal(load_image(&fatbin, filled, &module), result);
	logged(why);
	if (!strcmp(mode, "missing"))
		assert_non_null(strstr(text_log, "PTX"));
}

static uint64_t address(CUmodule module, const char *name, size_t expected)
{
	CUdeviceptr p;
	size_t bytes;

	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, &bytes, module, name), CUDA_SUCCESS);
	assert_int_equal(bytes, expected);
	return p;
}

/* Variables have their values, and constants the offsets of their bank. */
static void check_variables(CUmodule module)
{
	uint64_t counter = address(module, "counter", 4), table = address(module, "table", 20), pointer;
	uint32_t words[5], value;

	address(module, "room", 400);
	assert_int_equal(table, address(module, "vcuda_gap_8_0", 8) + 8);
	assert_int_equal(address(module, "vcuda_gap_8_28", 4), table + 20);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&value, counter, 4), CUDA_SUCCESS);
	assert_int_equal(value, 7);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&pointer, address(module, "pointer", 8), 8), CUDA_SUCCESS);
	assert_int_equal(pointer, counter + 2);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(words, table, 20), CUDA_SUCCESS);
	assert_int_equal(words[0], 0x30201);
	assert_int_equal(words[4], 0);
}

static void bare_cubins(void **state)
{
	struct sass_sample s = sass_sample();
	CUmodule module;

	(void)state;
	if (!translates) {
		assert_int_equal(load_image(&s, sizeof(s), &module), CUDA_ERROR_NO_BINARY_FOR_GPU);
		logged("the software GPU runs PTX only");
		return;
	}
	/* with a bound, and by its headers */
	for (int bounded = 0; bounded < 2; bounded++) {
		assert_int_equal(load_image(&s, bounded ? sizeof(s) : 0, &module), CUDA_SUCCESS);
		check_variables(module);
		assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	}
	s.head.e_flags = 100u << 8;
	assert_int_equal(load_image(&s, sizeof(s), &module), CUDA_ERROR_NO_BINARY_FOR_GPU);
	logged("sm_100");
	s.head.e_flags = 90u << 8 | 8;
	assert_int_equal(load_image(&s, sizeof(s), &module), CUDA_ERROR_NO_BINARY_FOR_GPU);
	logged("sm_90a");
	s = sass_sample();
	s.sections[SAMPLE_TEXT].sh_size = 24;
	assert_int_equal(load_image(&s, sizeof(s), &module), CUDA_ERROR_INVALID_IMAGE);
	logged("not a number of instructions");
}

/* A kernel that cannot be translated is refused by name when it is launched, and not before. */
static void refused_kernel(void **state)
{
	struct sass_sample s = sass_sample();
	uint64_t value = 0;
	void *params[] = {&value, &value};
	CUmodule module;

	(void)state;
	if (!translates)
		return;
	s.kernel_info[12] = SAMPLE_SIZED(0x3d, 12);
	s.kernel_info[13] = 2;
	s.kernel_info[14] = 1;
	assert_int_equal(load_image(&s, sizeof(s), &module), CUDA_SUCCESS);
	vcuda_log_capture(text_log, sizeof(text_log));
	assert_int_equal(launch(function(module, "k"), 1, 32, NULL, params), CUDA_ERROR_NOT_SUPPORTED);
	vcuda_log_capture(NULL, 0);
	logged("clusters of more than one block");
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

static void beside_ptx(void **state)
{
	bool code = !strcmp(mode, "sass");

	(void)state;
	begin_fatbin();
	add_code(80, 0);
	add_ptx(75);
	taken(code ? "ro80" : "scale");
	/* PTX for another device does not count, unless it replaces machine code that is for this one and not translated */
	begin_fatbin();
	add_code(80, 0);
	add_ptx(131);
	taken(translates ? "ro80" : "scale");
	begin_fatbin();
	add_code(75, 0);
	add_ptx(131);
	if (translates)
		taken("ro75");
	else
		refused(CUDA_ERROR_NO_BINARY_FOR_GPU, "only for other devices");
	/* linked code, and behind it what it was made from */
	begin_fatbin();
	add_code(80, 0);
	begin_container();
	add_ptx(75);
	taken(code ? "ro80" : "scale");
}

/* The newest code that the device may have; of sm_90, only if there is no other new one. */
static void choice(void **state)
{
	static const struct {
		unsigned int architectures[4], chosen_new, chosen;
	} cases[] = {
		{{75}, 75, 75},        {{75, 80, 86, 90}, 86, 80}, {{90, 80}, 80, 80}, {{75, 90}, 90, 75},
		{{86, 89, 90}, 89, 0}, {{90}, 90, 0},              {{100, 75, 120}, 75, 75},
	};
	bool new = !strcmp(mode, "new");
	char name[8];

	(void)state;
	for (size_t n = 0; translates && n < sizeof(cases) / sizeof(cases[0]); n++) {
		unsigned int chosen = new ? cases[n].chosen_new : cases[n].chosen;

		begin_fatbin();
		for (unsigned int a = 0; a < 4 && cases[n].architectures[a]; a++)
			add_code(cases[n].architectures[a], 0);
		snprintf(name, sizeof(name), "ro%02u", chosen % 100);
		if (chosen)
			taken(name);
		else
			refused(CUDA_ERROR_NO_BINARY_FOR_GPU, "VCUDA_CPU_COMPUTE=9.0 takes all");
	}
}

static void not_taken(void **state)
{
	struct sass_sample s = sass_sample();

	(void)state;
	begin_fatbin();
	add_code(100, 0);
	add_code(90, FLAG_SPECIFIC);
	add_code(100, 0);
	refused(CUDA_ERROR_NO_BINARY_FOR_GPU, "only machine code for sm_100, sm_90a, and");
	begin_fatbin();
	s.head.e_type = ET_REL;
	add_entry(ELF, 80, 0, &s, sizeof(s));
	if (translates)
		refused(CUDA_ERROR_NO_BINARY_FOR_GPU, "is not linked");
	else
		refused(CUDA_ERROR_NO_BINARY_FOR_GPU, "runs PTX only");
	if (!strcmp(mode, "missing"))
		assert_non_null(strstr(text_log, "only machine code for sm_80, and"));
}

/* The missing library is named once; the user may not have wanted it. */
static void missing_library(void **state)
{
	CUmodule module;
	struct sass_sample s = sass_sample();

	(void)state;
	load_image(&s, sizeof(s), &module);
	if (!strcmp(mode, "missing"))
		logged("libvcuda-sass.so is not installed");
	else
		assert_null(strstr(text_log, "not installed"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(missing_library), IN_CONTEXT(bare_cubins), IN_CONTEXT(refused_kernel),
		IN_CONTEXT(beside_ptx),	     IN_CONTEXT(choice),      IN_CONTEXT(not_taken),
	};

	mode = argc > 1 ? argv[1] : "auto";
	translates = strcmp(mode, "missing") && strcmp(mode, "ptx");
	start_device();
	if (!strcmp(mode, "ptx") || !strcmp(mode, "sass"))
		setenv("VCUDA_CPU_CODE", mode, 1);
	if (!strcmp(mode, "new"))
		setenv("VCUDA_CPU_COMPUTE", "12.0", 1);
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
