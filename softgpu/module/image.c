/* SPDX-License-Identifier: Apache-2.0 */
#include "module/image.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "architecture.h"
#include "backend-cpu.h"
#include "module/device-runtime.h"
#include "device/device.h"
#include "device/memory.h"
#include "module/machine-code.h"
#include "common/fatbin.h"
#include "protocol/machine-code.h"
#include "ptx/ptx-dialect.h"
#include "common/log.h"

/* The limit of PTX text in one image. NVIDIA's largest libraries have far less. */
#define MAX_BYTES (256u << 20)
#define WRAPPER_MAGIC 0x466243b1u

/* 0: none was set. */
static __thread size_t image_bound;

__attribute__((visibility("default"))) void vcuda_cpu_set_image_bound(size_t bytes)
{
	image_bound = bytes;
}

/* The entries of a container, for messages and to choose. */
struct survey {
	struct fatbin_entry best;
	bool found, elf, other;
	struct fatbin_entry for_other; /* PTX for another device */
	bool has_code;                 /* machine code that this device would run */
	struct fatbin_entry code;      /* the machine code to translate; kind 0: there is none */
	char codes[96];                /* " sm_80, sm_90a,": the architectures of machine code */
	struct fatbin_entry newer;     /* the PTX for the next newer device; kind 0: there is none */
	bool stands_in;                /* the best is that */
	bool is_link;                  /* the container without code at the head of what the driver's linker made */
	unsigned int max_registers;    /* of a link; 0: no bound */
};

static char suffix_of(const struct fatbin_entry *entry)
{
	return entry->arch_specific ? 'a' : entry->family_specific ? 'f' : 0;
}

static bool runs_here(unsigned int target, char suffix)
{
	return softgpu_architecture_runs(softgpu_device()->architecture, target, suffix);
}

/* Adds an architecture to the list, each once. */
static void list_code(struct survey *s, const struct fatbin_entry *entry)
{
	char name[20];

	snprintf(name, sizeof(name), " sm_%u%s,", entry->sm, (char[]){suffix_of(entry), 0});
	if (!strstr(s->codes, name) && strlen(s->codes) + strlen(name) < sizeof(s->codes))
		strcat(s->codes, name);
}

static void survey_code(struct survey *s, const struct fatbin_entry *entry)
{
	s->elf = true;
	list_code(s, entry);
	if (softgpu_machine_code_rank(entry) > softgpu_machine_code_rank(&s->code))
		s->code = *entry;
	/* Code for one architecture alone may have no plain form: its PTX for newer devices can be empty. */
	if (!suffix_of(entry) &&
	    softgpu_architecture_runs_code(softgpu_device()->architecture, entry->sm, suffix_of(entry)))
		s->has_code = true;
}

static void survey_ptx(struct survey *s, const struct fatbin_entry *entry)
{
	if (runs_here(entry->sm, suffix_of(entry))) {
		if (!s->found || entry->sm > s->best.sm)
			s->best = *entry;
		s->found = true;
		return;
	}
	s->other = true;
	s->for_other = *entry;
	if (!suffix_of(entry) && (!s->newer.kind || entry->sm < s->newer.sm))
		s->newer = *entry;
}

/*
 * Libraries have machine code for each device, and PTX for the newest only. Where a driver takes machine code that is
 * not translated, the software GPU takes the PTX for the next newer device.
 */
static void let_stand_in(struct survey *s)
{
	if (s->found || !s->has_code || !s->newer.kind)
		return;
	s->found = s->stands_in = true;
	s->best = s->newer;
}

static CUresult survey(struct fatbin_reader *reader, struct survey *s)
{
	struct fatbin_entry entry;
	int n;

	*s = (struct survey){0};
	while ((n = fatbin_next(reader, &entry)) == 1) {
		if (entry.kind == FATBIN_ELF) {
			survey_code(s, &entry);
		} else if (entry.kind == FATBIN_PTX) {
			survey_ptx(s, &entry);
		} else if (entry.kind == FATBIN_OPTIONS) {
			s->is_link = true;
			s->max_registers = softgpu_register_bound(s->max_registers, entry.max_registers);
		}
	}
	let_stand_in(s);
	if (n == 0)
		return CUDA_SUCCESS;
	vcuda_log("the fatbin is malformed: an entry's sizes go beyond its container");
	return CUDA_ERROR_INVALID_IMAGE;
}

/* Libraries have several containers for one newer device, which a program may never use: one line is for all of them. */
static bool is_new(const char *codes)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char last[sizeof(((struct survey *)0)->codes)];
	bool differs;

	pthread_mutex_lock(&lock);
	differs = strcmp(last, codes);
	strcpy(last, codes);
	pthread_mutex_unlock(&lock);
	return differs;
}

static CUresult refuse(const struct survey *s)
{
	const struct fatbin_entry *e = &s->for_other;

	if (s->other)
		vcuda_log("the program has PTX only for other devices (e.g. compute_%u%s), and this one is compute_%u: "
			  "compile it for that, or set VCUDA_CPU_COMPUTE=%u.%u",
			  e->sm, (char[]){suffix_of(e), 0}, softgpu_device()->architecture, e->sm / 10, e->sm % 10);
	else if (s->elf && is_new(s->codes))
		vcuda_log("the program has no PTX, only machine code for%s and the software GPU runs PTX%s: compile it "
			  "with e.g. -gencode arch=compute_75,code=compute_75, which may follow -arch=native",
			  s->codes, softgpu_machine_code_taken());
	else if (!s->elf)
		vcuda_log("the program has no PTX and the software GPU runs PTX only: compile it with e.g. "
			  "-gencode arch=compute_75,code=compute_75, which may follow -arch=native");
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* Unpacks an entry. *text is the caller's. */
static CUresult unpack(const struct softgpu_image *image, const struct fatbin_entry *entry, char **text, size_t *length)
{
	const char *what = entry->kind == FATBIN_ELF ? "machine code" : "PTX";
	int error;

	if (image->count == SOFTGPU_IMAGE_TEXTS) {
		vcuda_log("the image has more than %d fatbin containers", SOFTGPU_IMAGE_TEXTS);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	if (entry->bytes > MAX_BYTES - image->bytes) {
		vcuda_log("the image unpacks to more than %u MiB of %s", MAX_BYTES >> 20, what);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	error = softgpu_host_room(entry->bytes) ? fatbin_unpack(entry, text, length) : -ENOMEM;
	if (!error)
		return CUDA_SUCCESS;
	vcuda_log("the %s for sm_%u in the fatbin cannot be unpacked: %s", what, entry->sm, strerror(-error));
	return error == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult add(struct softgpu_image *image, const struct survey *s)
{
	const struct fatbin_entry *entry = &s->best;
	char *text;
	size_t length;
	CUresult result = unpack(image, entry, &text, &length);

	if (result != CUDA_SUCCESS)
		return result;
	image->bytes += length;
	image->relocatable |= entry->relocatable;
	image->max_registers = softgpu_register_bound(image->max_registers, entry->max_registers);
	/* PTX ends at a NUL or at the entry's end. */
	image->part[image->count++] = (struct softgpu_image_part){.text = text,
								  .length = strnlen(text, length),
								  .beside_machine_code = s->elf,
								  .for_machine_code = s->stands_in};
	return CUDA_SUCCESS;
}

/* Takes a cubin, which becomes the whole image. */
static CUresult take_cubin(void *cubin, size_t bytes, struct softgpu_image *image)
{
	struct softgpu_image_part part = {.beside_machine_code = true};
	CUresult result = softgpu_machine_code_open(cubin, bytes, &image->code, &part.text, &part.length);

	if (result != CUDA_SUCCESS)
		return result;
	image->bytes = part.length;
	image->part[0] = part;
	image->count = 1;
	return CUDA_SUCCESS;
}

static CUresult add_code(struct softgpu_image *image, const struct fatbin_entry *entry)
{
	char *cubin;
	size_t bytes;
	CUresult result = unpack(image, entry, &cubin, &bytes);

	return result == CUDA_SUCCESS ? take_cubin(cubin, bytes, image) : result;
}

/* Machine code is translated where PTX is missing, or where the user wants that. */
static CUresult choose_code(struct softgpu_image *image, const struct survey *refused, const struct fatbin_entry *code)
{
	if (!code->kind || !softgpu_machine_code_opens())
		return refuse(refused);
	return add_code(image, code);
}

/* The code of one container. *done: the others do not count, because this one is complete. */
static CUresult read_container(struct softgpu_image *image, const struct survey *s, bool first, enum softgpu_code code,
			       bool *done)
{
	*done = first && code == SOFTGPU_CODE_SASS && s->code.kind && softgpu_machine_code_opens();
	if (*done)
		return add_code(image, &s->code);
	/* a device linker's output is complete: its inputs are left out */
	*done = first && s->found && !s->best.relocatable;
	return s->found ? add(image, s) : CUDA_SUCCESS;
}

static CUresult read_fatbin(const void *data, size_t bytes, enum softgpu_code code, struct softgpu_image *image)
{
	struct fatbin_entry translated = {0};
	struct fatbin_reader reader;
	struct survey s, refused = {0};
	bool first = true, done;
	CUresult result;

	if (fatbin_open(&reader, data, bytes)) {
		vcuda_log("the fatbin is malformed: its header's size goes beyond the image of %zu bytes", bytes);
		return CUDA_ERROR_INVALID_IMAGE;
	}
	do {
		result = survey(&reader, &s);
		/* The inputs of the driver's linker follow. Translated machine code cannot be linked. */
		if (s.is_link)
			code = SOFTGPU_CODE_PTX;
		/* PTX for newer devices replaces only machine code that is not translated. */
		if (s.stands_in && s.code.kind && code != SOFTGPU_CODE_PTX && softgpu_machine_code_opens())
			s.found = s.stands_in = false;
		image->max_registers = softgpu_register_bound(image->max_registers, s.max_registers);
		if (result == CUDA_SUCCESS)
			result = read_container(image, &s, first, code, &done);
		if (result != CUDA_SUCCESS || done)
			return result;
		if (!s.found && !refused.other)
			refused = s;
		if (!translated.kind && code != SOFTGPU_CODE_PTX)
			translated = s.code;
		first = false;
	} while (fatbin_next_container(&reader));
	return image->count ? CUDA_SUCCESS : choose_code(image, &refused, &translated);
}

/* A driver has machine code, and does not look at the text. */
static bool has_machine_code(const struct softgpu_image *image, unsigned int part)
{
	return image->part[part].beside_machine_code ||
	       !strncmp(image->part[part].text, VCUDA_FOR_MACHINE_CODE, strlen(VCUDA_FOR_MACHINE_CODE));
}

/* Is the PTX no newer than the driver and for this device, where a driver would compile it? */
static CUresult check_dialect(const struct softgpu_image *image, unsigned int part)
{
	unsigned int newest = softgpu_architecture_ptx(CUDA_VERSION), device = softgpu_device()->architecture;
	struct ptx_dialect dialect;

	ptx_dialect_read(&dialect, image->part[part].text, image->part[part].length);
	if (!has_machine_code(image, part) && dialect.version > newest) {
		vcuda_log("cannot load a module: line %u of the PTX: Unsupported .version %u.%u; current version is "
			  "'%u.%u'",
			  dialect.version_line, dialect.version / 10, dialect.version % 10, newest / 10, newest % 10);
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	}
	if (!dialect.target || image->part[part].for_machine_code || runs_here(dialect.target, dialect.suffix))
		return CUDA_SUCCESS;
	vcuda_log("cannot load a module: line %u of the PTX: Program with .target 'sm_%u%s' cannot be compiled to "
		  "architecture 'sm_%u': compile it for that, or set VCUDA_CPU_COMPUTE=%u.%u",
		  dialect.target_line, dialect.target, (char[]){dialect.suffix, 0}, device, dialect.target / 10,
		  dialect.target % 10);
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult check_dialects(const struct softgpu_image *image)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int n = 0; n < image->count && result == CUDA_SUCCESS; n++)
		result = check_dialect(image, n);
	return result;
}

static CUresult read_text(const char *text, size_t bound, struct softgpu_image *image)
{
	size_t length = bound ? strnlen(text, bound) : strlen(text);
	char *copy = softgpu_host_room(length) ? strndup(text, length) : NULL;

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	image->part[0] = (struct softgpu_image_part){.text = copy, .length = length};
	image->count = 1;
	return CUDA_SUCCESS;
}

/* Adds the functions that the device runtime library calls, if the program was linked with it. */
static CUresult add_device_runtime(struct softgpu_image *image)
{
	unsigned int n = image->count;
	size_t length = strlen(softgpu_device_runtime);

	while (n && !memmem(image->part[n - 1].text, image->part[n - 1].length, SOFTGPU_DEVICE_RUNTIME_PREFIX,
			    strlen(SOFTGPU_DEVICE_RUNTIME_PREFIX)))
		n--;
	if (!n || image->count == SOFTGPU_IMAGE_TEXTS)
		return CUDA_SUCCESS;
	image->part[image->count] =
		(struct softgpu_image_part){.text = strdup(softgpu_device_runtime), .length = length};
	if (!image->part[image->count].text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	image->bytes += length;
	image->count++;
	return CUDA_SUCCESS;
}

static CUresult read_elf(const void *data, size_t bound, enum softgpu_code code, struct softgpu_image *image)
{
	size_t bytes = softgpu_machine_code_bytes(data, bound);
	void *copy;

	if (code != SOFTGPU_CODE_PTX && bytes && softgpu_machine_code_opens()) {
		copy = bytes <= MAX_BYTES && softgpu_host_room(bytes) ? malloc(bytes) : NULL;
		return copy ? take_cubin(memcpy(copy, data, bytes), bytes, image) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	vcuda_log("the image is machine code (a cubin) and the software GPU runs PTX%s: load PTX or a fatbin that has "
		  "it. Libraries that have both, as cuBLAS, choose PTX where they do not know the device: set "
		  "VCUDA_CPU_COMPUTE=13.0, or install libvcuda-sass.so",
		  softgpu_machine_code_taken());
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult read_any(const void *data, size_t bound, enum softgpu_code code, struct softgpu_image *image)
{
	CUresult result;
	uint32_t magic;

	memcpy(&magic, data, sizeof(magic));
	if (magic == FATBIN_MAGIC) {
		result = read_fatbin(data, bound ? bound : fatbin_size(data), code, image);
		if (result == CUDA_SUCCESS && image->relocatable)
			result = add_device_runtime(image);
		return result;
	}
	if (memcmp(data, "\177ELF", 4) == 0)
		return read_elf(data, bound, code, image);
	if (magic == WRAPPER_MAGIC) {
		vcuda_log(
			"the image is a fatbin wrapper, which holds pointers: hand over the fatbin that it points to");
		return CUDA_ERROR_INVALID_IMAGE;
	}
	return read_text(data, bound, image);
}

CUresult softgpu_image_read(const void *data, enum softgpu_code code, struct softgpu_image *image)
{
	size_t bound = image_bound;
	CUresult result;

	image_bound = 0;
	image->count = 0;
	image->bytes = 0;
	image->relocatable = false;
	image->max_registers = 0;
	image->code = NULL;
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	if (bound && bound < FATBIN_HEADER_BYTES)
		return CUDA_ERROR_INVALID_IMAGE;
	result = read_any(data, bound, code, image);
	if (result == CUDA_SUCCESS)
		result = check_dialects(image);
	if (result != CUDA_SUCCESS)
		softgpu_image_free(image);
	return result;
}

void softgpu_image_free(struct softgpu_image *image)
{
	for (unsigned int i = 0; i < image->count; i++)
		free(image->part[i].text);
	image->count = 0;
	softgpu_machine_code_put(image->code);
	image->code = NULL;
}
