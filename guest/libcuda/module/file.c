/* SPDX-License-Identifier: Apache-2.0 */
#include "module/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PADDING 64

CUresult libcuda_file_read(const char *path, void **data, size_t *bytes)
{
	FILE *f = fopen(path, "rbe");
	struct stat st;
	CUresult result = CUDA_ERROR_FILE_NOT_FOUND;

	if (!f)
		return result;
	if (fstat(fileno(f), &st) || !S_ISREG(st.st_mode))
		goto close_file;
	result = CUDA_ERROR_INVALID_IMAGE;
	if (st.st_size <= 0)
		goto close_file;
	result = CUDA_ERROR_OUT_OF_MEMORY;
	*data = calloc(1, (size_t)st.st_size + PADDING);
	if (!*data)
		goto close_file;
	*bytes = fread(*data, 1, (size_t)st.st_size, f);
	result = *bytes == (size_t)st.st_size ? CUDA_SUCCESS : CUDA_ERROR_FILE_NOT_FOUND;
	if (result != CUDA_SUCCESS)
		free(*data);
close_file:
	fclose(f);
	return result;
}
