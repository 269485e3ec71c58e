/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles PTX texts for the software GPU and runs nothing. A line that is refused is named, with the reason, and left
 * out, until the rest compiles.
 *
 * usage: check-forms FILE...
 * prints FILE:LINE: STATUS REASON; status 3 is "not supported".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/kernel.h"

static const uint32_t block[3] = {64, 1, 1};

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	if (!file || getdelim(&text, &size, 0, file) < 0) {
		perror(path);
		exit(2);
	}
	fclose(file);
	return text;
}

static enum ptx_status compile(const char *text, struct ptx_error *error)
{
	struct ptx_module *module;
	const struct ptx_binary *binary;
	const struct ptx_variable *variables;
	enum ptx_status status = ptx_module_create(text, strlen(text), &module, error);

	if (status != PTX_OK)
		return status;
	/* nothing is there: no code runs */
	for (size_t n = ptx_module_variables(module, &variables); n--;)
		ptx_module_place(module, n, 0x100000 + n * 0x10000);
	for (size_t n = ptx_module_kernels(module); n-- && status == PTX_OK;)
		status = ptx_kernel_prepare(ptx_module_kernel(module, n), block, &binary, error);
	ptx_module_destroy(module);
	return status;
}

/* False: the file has no such line, or the line is empty. */
static bool leave_out(char *text, unsigned line)
{
	char *at = text;

	while (at && --line)
		at = (at = strchr(at, '\n')) ? at + 1 : NULL;
	/* the lines behind it keep their numbers; a second time there is nothing to leave out */
	if (!at || !at[strspn(at, " ")] || at[strspn(at, " ")] == '\n')
		return false;
	memset(at, ' ', strcspn(at, "\n"));
	return true;
}

int main(int argc, char **argv)
{
	int result = 0;

	for (int n = 1; n < argc; n++) {
		char *text = read_text(argv[n]);
		struct ptx_error error;
		enum ptx_status status;

		while ((status = compile(text, &error)) != PTX_OK) {
			printf("%s:%u: %u %s\n", argv[n], error.line, status, error.text);
			fflush(stdout);
			result = 1;
			if (!leave_out(text, error.line))
				break;
		}
		free(text);
	}
	return result;
}
