/* SPDX-License-Identifier: Apache-2.0 */
/* Exit status 0: libcuda.so and libnvidia-ml.so are the libraries that have a version in their names, and work. */
#include <dlfcn.h>
#include <stdio.h>

/* Calls `function` with 0. */
static int check(const char *plain, const char *versioned, const char *function)
{
	void *library = dlopen(plain, RTLD_NOW | RTLD_LOCAL);
	int (*call)(unsigned int) = library ? (int (*)(unsigned int))dlsym(library, function) : NULL;
	int result;

	if (!call || dlopen(versioned, RTLD_NOW | RTLD_LOCAL) != library) {
		fprintf(stderr, "%s is not %s: %s\n", plain, versioned, call ? "another library" : dlerror());
		return 1;
	}
	result = call(0);
	if (result)
		fprintf(stderr, "%s: %s: error %d\n", plain, function, result);
	return result != 0;
}

int main(void)
{
	return check("libcuda.so", "libcuda.so.1", "cuInit") |
	       check("libnvidia-ml.so", "libnvidia-ml.so.1", "nvmlInitWithFlags");
}
