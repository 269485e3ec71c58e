/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates the machine code of libraries and says which kernels are refused.
 *
 * usage: lift-library ARCHITECTURE N FILE...
 * Takes every Nth kernel for sm_ARCHITECTURE of all containers in the files. A kernel is accepted if it is translated
 * and the PTX is legal. Prints a line for each other kernel, and the counts. Ends with status 1 if there is no kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fatbin.h"
#include "softgpu/kernel.h"
#include "softgpu/sass/sass.h"

static unsigned int architecture;
static unsigned long every, seen, tried, translated, accepted;

static void take_kernel(const char *cubin, size_t bytes, const char *name)
{
	struct ptx_error why = {0};
	struct ptx_module *module = NULL;
	char error[300] = "", *text = NULL;
	size_t length;

	tried++;
	if (vcuda_sass_to_ptx(cubin, bytes, name, &text, &length, error, sizeof(error))) {
		printf("not translated: %s: %s\n", name, error);
		return;
	}
	translated++;
	if (ptx_module_create(text, length, &module, &why) == PTX_OK)
		accepted++;
	else
		printf("not accepted: %s: line %u: %s\n", name, why.line, why.text);
	ptx_module_destroy(module);
	free(text);
}

static void take_cubin(const char *cubin, size_t bytes)
{
	char error[300] = "", *text = NULL, *name, *end;
	size_t length;

	if (vcuda_sass_to_ptx(cubin, bytes, VCUDA_SASS_OUTLINE, &text, &length, error, sizeof(error))) {
		printf("malformed: %s\n", error);
		return;
	}
	for (char *at = text; (at = strstr(at, ".entry ")); at = end + 1) {
		name = at + strlen(".entry ");
		end = name + strcspn(name, " (\n");
		*end = 0;
		if (seen++ % every == 0)
			take_kernel(cubin, bytes, name);
	}
	free(text);
}

static void take_container(const void *image, size_t bytes)
{
	struct fatbin_reader reader;
	struct fatbin_entry entry;
	char *data;
	size_t size;

	if (fatbin_open(&reader, image, bytes))
		return;
	while (fatbin_next(&reader, &entry) == 1) {
		if (entry.kind != FATBIN_ELF || entry.sm != architecture || entry.arch_specific ||
		    entry.family_specific || fatbin_unpack(&entry, &data, &size))
			continue;
		take_cubin(data, size);
		free(data);
	}
}

/* Containers are aligned to 8 bytes. */
static int take_file(const char *path)
{
	const uint32_t magic = FATBIN_MAGIC;
	struct stat about;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *data = MAP_FAILED;
	size_t bytes = 0, size;
	int error;

	if (fd >= 0 && !fstat(fd, &about)) {
		bytes = (size_t)about.st_size;
		data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	if (data == MAP_FAILED)
		return -error;
	for (size_t at = 0; at + FATBIN_HEADER_BYTES <= bytes; at += 8) {
		size = memcmp(data + at, &magic, sizeof(magic)) ? 0 : fatbin_size(data + at);
		if (!size || size > bytes - at)
			continue;
		take_container(data + at, size);
		at = (at + size + 7) / 8 * 8 - 8;
	}
	munmap((void *)data, bytes);
	return 0;
}

int main(int argc, char **argv)
{
	int error;

	if (argc > 3) {
		architecture = (unsigned int)strtoul(argv[1], NULL, 10);
		every = strtoul(argv[2], NULL, 10);
	}
	if (!architecture || !every) {
		fprintf(stderr, "usage: lift-library ARCHITECTURE N FILE...\n");
		return 2;
	}
	for (int i = 3; i < argc; i++) {
		error = take_file(argv[i]);
		if (error) {
			fprintf(stderr, "lift-library: %s: %s\n", argv[i], strerror(-error));
			return 2;
		}
	}
	printf("%lu kernels, of which %lu were tried: %lu translated, %lu accepted\n", seen, tried, translated,
	       accepted);
	return !tried;
}
