/* SPDX-License-Identifier: Apache-2.0 */
#include "module/machine-code.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "architecture.h"
#include "common/log.h"
#include "device/device.h"
#include "device/memory.h"
#include "sass/sass.h"

#define MACHINE 190 /* EM_CUDA */
#define MAX_BYTES (256u << 20)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static vcuda_sass_to_ptx_function *translate;
static bool is_missing;

unsigned int softgpu_machine_code_rank(const struct fatbin_entry *entry)
{
	/* The newest comes first; but code for sm_90 has more that cannot be translated. */
	static const unsigned int order[] = {75, 90, 80, 86, 89};

	if (entry->kind != FATBIN_ELF || entry->relocatable || entry->arch_specific || entry->family_specific ||
	    !vcuda_sass_takes(entry->sm) || !softgpu_architecture_runs(softgpu_device()->architecture, entry->sm, 0))
		return 0;
	for (unsigned int n = 0; n < sizeof(order) / sizeof(order[0]); n++)
		if (order[n] == entry->sm)
			return n + 1;
	return 0;
}

/* In the folder of this library, else wherever the loader looks. */
static void *open_library(void)
{
	char path[PATH_MAX + sizeof(VCUDA_SASS_LIBRARY)];
	const char *slash;
	Dl_info self;

	slash = dladdr(&once, &self) ? strrchr(self.dli_fname, '/') : NULL;
	if (slash && slash - self.dli_fname < PATH_MAX) {
		snprintf(path, sizeof(path), "%.*s/" VCUDA_SASS_LIBRARY, (int)(slash - self.dli_fname), self.dli_fname);
		if (access(path, R_OK) == 0)
			return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return dlopen(VCUDA_SASS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

static void open_once(void)
{
	void *library = open_library();

	vcuda_sass_ask_function *ask = library ? (vcuda_sass_ask_function *)dlsym(library, VCUDA_SASS_ASK) : NULL;

	if (ask)
		translate = (vcuda_sass_to_ptx_function *)dlsym(library, VCUDA_SASS_FUNCTION);
	if (translate)
		ask(softgpu_host_room);
	is_missing = !translate;
	if (is_missing)
		vcuda_log("the program's machine code is not translated: " VCUDA_SASS_LIBRARY " is not installed "
			  "(Debian: virtio-cuda-softgpu-sass): %s",
			  dlerror());
}

bool softgpu_machine_code_opens(void)
{
	pthread_once(&once, open_once);
	return translate;
}

const char *softgpu_machine_code_taken(void)
{
	return softgpu_device()->code == SOFTGPU_CODE_PTX || is_missing
		       ? " only"
		       : " and machine code for sm_75, 80, 86, 89 and 90 up to the device's capability "
			 "(VCUDA_CPU_COMPUTE=9.0 takes all)";
}

/* Sections of a cubin that is not linked have types of their own. */
static bool has_bytes(uint32_t type)
{
	return type != SHT_NULL && type != SHT_NOBITS && type != 0x70000007 && type != 0x70000009 &&
	       type != 0x7000000a && type != 0x70000015;
}

/* Makes *end the end of a table or section, if that is later. False: no file is so large. */
static bool extend(uint64_t *end, uint64_t offset, uint64_t bytes)
{
	if (offset > MAX_BYTES || bytes > MAX_BYTES - offset)
		return false;
	if (offset + bytes > *end)
		*end = offset + bytes;
	return true;
}

size_t softgpu_machine_code_bytes(const void *data, size_t bound)
{
	const char *file = data;
	uint64_t end = sizeof(Elf64_Ehdr);
	Elf64_Shdr section;
	Elf64_Ehdr h;

	if (bound && bound < sizeof(h))
		return 0;
	memcpy(&h, file, sizeof(h));
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != MACHINE || h.e_shentsize != sizeof(section))
		return 0;
	if (bound)
		return bound;
	if (!extend(&end, h.e_shoff, (uint64_t)h.e_shnum * sizeof(section)) ||
	    !extend(&end, h.e_phoff, (uint64_t)h.e_phnum * h.e_phentsize))
		return 0;
	for (unsigned int n = 0; n < h.e_shnum; n++) {
		memcpy(&section, file + h.e_shoff + (uint64_t)n * sizeof(section), sizeof(section));
		if (has_bytes(section.sh_type) && !extend(&end, section.sh_offset, section.sh_size))
			return 0;
	}
	return end;
}

struct softgpu_machine_code {
	atomic_uint refs;
	void *cubin;
	size_t bytes;
};

static CUresult text_of(const struct softgpu_machine_code *code, const char *kernel, char **text, size_t *length,
			char **refusal)
{
	char error[300] = "";
	int result = translate(code->cubin, code->bytes, kernel, text, length, error, sizeof(error));

	if (!result)
		return CUDA_SUCCESS;
	if (result == -ENOSYS && refusal) {
		*text = NULL;
		*refusal = strdup(error);
		return *refusal ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	vcuda_log("the program's machine code cannot be translated: %s", error);
	switch (result) {
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -ENOTSUP:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	default:
		return CUDA_ERROR_INVALID_IMAGE;
	}
}

CUresult softgpu_machine_code_open(void *cubin, size_t bytes, struct softgpu_machine_code **code, char **outline,
				   size_t *length)
{
	struct softgpu_machine_code *c = malloc(sizeof(*c));
	CUresult result;

	if (!c) {
		free(cubin);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*c = (struct softgpu_machine_code){.refs = 1, .cubin = cubin, .bytes = bytes};
	result = text_of(c, VCUDA_SASS_OUTLINE, outline, length, NULL);
	if (result == CUDA_SUCCESS)
		*code = c;
	else
		softgpu_machine_code_put(c);
	return result;
}

struct softgpu_machine_code *softgpu_machine_code_get(struct softgpu_machine_code *c)
{
	if (c)
		atomic_fetch_add(&c->refs, 1);
	return c;
}

void softgpu_machine_code_put(struct softgpu_machine_code *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	free(c->cubin);
	free(c);
}

size_t softgpu_machine_code_size(const struct softgpu_machine_code *c)
{
	return c ? c->bytes : 0;
}

CUresult softgpu_machine_code_kernel(const struct softgpu_machine_code *c, const char *name, char **text,
				     size_t *length, char **refusal)
{
	*refusal = NULL;
	return text_of(c, name, text, length, refusal);
}
