/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda ptx`: the PTX that the software GPU makes of machine code. */
#include "cli.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/sass/sass.h"

#define MAX_BYTES (256u << 20)

static int usage(FILE *out)
{
	fputs("usage: vcuda ptx FILE [KERNEL]\n"
	      "\n"
	      "Prints the PTX that the software GPU runs in the place of machine code: of all kernels of a cubin, or "
	      "of\n"
	      "one. A comment before each instruction has its offset in hexadecimal digits, as nvdisasm prints it. A\n"
	      "kernel with an instruction that cannot be translated has a .pragma that names it, and the exit status "
	      "of\n"
	      "`vcuda ptx FILE KERNEL` is 1 for such a kernel. `cuobjdump -xelf all PROGRAM` writes the cubins of a\n"
	      "program.\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

/* The caller frees it. */
static char *read_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "re");
	char *data = NULL;

	*bytes = 0;
	if (file && fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0 && ftell(file) <= MAX_BYTES) {
		size_t size = (size_t)ftell(file);

		rewind(file);
		data = malloc(size + 1);
		*bytes = data ? fread(data, 1, size, file) : 0;
	} else if (file && !errno) {
		errno = EFBIG;
	}
	if (!data)
		cli_message("%s: %s", path, strerror(errno));
	if (file)
		fclose(file);
	return data;
}

static vcuda_sass_to_ptx_function *translator(const struct cli_paths *paths)
{
	char path[PATH_MAX + sizeof(VCUDA_SASS_LIBRARY)];
	const char *slash = strrchr(paths->backend_cpu, '/');
	vcuda_sass_to_ptx_function *function;
	void *library;

	snprintf(path, sizeof(path), "%.*s" VCUDA_SASS_LIBRARY, slash ? (int)(slash + 1 - paths->backend_cpu) : 0,
		 paths->backend_cpu);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	function = library ? (vcuda_sass_to_ptx_function *)dlsym(library, VCUDA_SASS_FUNCTION) : NULL;
	if (!function)
		cli_message("ptx: the translation of machine code is not installed (Debian: "
			    "virtio-cuda-softgpu-sass): %s",
			    dlerror());
	return function;
}

/*
 * Without the number of registers, which the software GPU reports to programs: the machine code of a GPU that is made
 * of this PTX can need more.
 */
static bool print_lines(const char *text, size_t length)
{
	static const char registers[] = ".maxnreg ";
	const char *end = text + length;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line = newline ? (size_t)(newline + 1 - text) : (size_t)(end - text);

		if (strncmp(text, registers, sizeof(registers) - 1) && fwrite(text, 1, line, stdout) != line)
			return false;
		text += line;
	}
	return fflush(stdout) == 0;
}

static int print_text(const char *path, const char *kernel, const char *text, size_t length)
{
	if (kernel && !strstr(text, ".entry ")) {
		cli_message("%s: there is no kernel %s", path, kernel);
		return 1;
	}
	if (print_lines(text, length))
		return 0;
	cli_message("ptx: %s", strerror(errno));
	return 1;
}

static int translate(vcuda_sass_to_ptx_function *function, const char *path, const char *kernel)
{
	char error[300] = "", *text = NULL;
	size_t bytes, length = 0;
	char *cubin = read_file(path, &bytes);
	int result;

	if (!cubin)
		return 1;
	result = function(cubin, bytes, kernel, &text, &length, error, sizeof(error));
	if (result == -ENOSYS)
		cli_message("%s: kernel %s: the instruction `%s` is not supported", path, kernel, error);
	else if (result)
		cli_message("%s: %s", path, error);
	result = result ? 1 : print_text(path, kernel, text, length);
	free(text);
	free(cubin);
	return result;
}

int cli_ptx(const struct cli_paths *paths, int argc, char **argv)
{
	vcuda_sass_to_ptx_function *function;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return usage(stdout);
	if (argc < 2 || argc > 3 || argv[1][0] == '-' || !argv[argc - 1][0])
		return usage(stderr);
	function = translator(paths);
	return function ? translate(function, argv[1], argc > 2 ? argv[2] : NULL) : 1;
}
