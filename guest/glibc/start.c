/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's constructors. Since 2.34 glibc's __libc_start_main() runs them, and the compiler's start code leaves that
 * to it; before, the start code passed a function that runs them. The loader has called the functions of
 * .preinit_array.
 */
#include <stddef.h>

typedef int main_function(int, char **, char **);
typedef void constructor(int, char **, char **);

#define BOUND extern constructor *const

BOUND __init_array_start[] __attribute__((visibility("hidden")));
BOUND __init_array_end[] __attribute__((visibility("hidden")));

void _init(void);
int __real___libc_start_main(main_function *program, int argc, char **argv, main_function *init, void (*fini)(void),
			     void (*loader_fini)(void), void *stack_end);
int __wrap___libc_start_main(main_function *program, int argc, char **argv, main_function *init, void (*fini)(void),
			     void (*loader_fini)(void), void *stack_end);

static int run_constructors(int argc, char **argv, char **environment)
{
	_init();
	for (constructor *const *c = __init_array_start; c < __init_array_end; c++)
		(*c)(argc, argv, environment);
	return 0;
}

int __wrap___libc_start_main(main_function *program, int argc, char **argv, main_function *init, void (*fini)(void),
			     void (*loader_fini)(void), void *stack_end)
{
	return __real___libc_start_main(program, argc, argv, init ? init : run_constructors, fini, loader_fini,
					stack_end);
}
