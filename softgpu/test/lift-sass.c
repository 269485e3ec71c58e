/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PTX of a cubin, as the software GPU runs it: lift-sass joined|split CUBIN. `split`: without the pass that makes
 * 64-bit values of pairs of registers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/sass/lift/lift.h"
#include "softgpu/sass/sass.h"

int main(int argc, char **argv)
{
	static char data[16 << 20];
	FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
	size_t bytes = file ? fread(data, 1, sizeof(data), file) : 0, length;
	char error[300] = "no file", *text = NULL;

	if (argc == 3)
		sass_lift_join(strcmp(argv[1], "split") != 0);
	if (!file || vcuda_sass_to_ptx(data, bytes, NULL, &text, &length, error, sizeof(error))) {
		fprintf(stderr, "lift-sass: %s\n", error);
		return 1;
	}
	fclose(file);
	fputs(text, stdout);
	free(text);
	return 0;
}
