/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads PTX texts as the software GPU does, without compiling, and says for each whether it is refused.
 *
 * usage: check-load < TEXTS
 * Each text ends with a NUL. Prints a line for each: STATUS LINE REASON, where status 0 is loaded.
 */
#include <stdio.h>
#include <stdlib.h>

#include "softgpu/kernel.h"

int main(void)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t length;

	while ((length = getdelim(&text, &room, 0, stdin)) > 0) {
		struct ptx_module *module;
		struct ptx_error error = {0};
		enum ptx_status status = ptx_module_create(text, (size_t)length, &module, &error);

		printf("%u %u %s\n", status, error.line, error.text);
		ptx_module_destroy(module);
	}
	free(text);
	return 0;
}
