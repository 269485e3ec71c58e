/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the C library that glibc got after 2.17, or has only in a static part of its own, for guest
 * objects: glibc's interface, as far as guest objects use it. The linker takes them where the stubs have no such
 * name. They call what glibc 2.17 has. A function that the kernel lacks fails with ENOSYS.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc's name for the layout of struct stat on x86-64. */
#define STAT_VERSION 1

int __xstat64(int version, const char *path, struct stat64 *to);
int __lxstat64(int version, const char *path, struct stat64 *to);
int __fxstat64(int version, int fd, struct stat64 *to);
int __fxstatat64(int version, int folder, const char *path, struct stat64 *to, int flags);
int __fcntl(int fd, int command, ...);
int __cxa_atexit(void (*function)(void *), void *argument, void *object);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);
int __isoc99_vsscanf(const char *text, const char *format, va_list arguments);
int __isoc99_vfscanf(FILE *from, const char *format, va_list arguments);
/* glibc's header may redirect the plain names to those that are defined here. */
long old_strtol(const char *text, char **end, int base) __asm__("strtol");
long long old_strtoll(const char *text, char **end, int base) __asm__("strtoll");
unsigned long old_strtoul(const char *text, char **end, int base) __asm__("strtoul");
unsigned long long old_strtoull(const char *text, char **end, int base) __asm__("strtoull");

/* No header of glibc before 2.38 has these. */
long __isoc23_strtol(const char *text, char **end, int base);
long long __isoc23_strtoll(const char *text, char **end, int base);
unsigned long __isoc23_strtoul(const char *text, char **end, int base);
unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
int __isoc23_sscanf(const char *text, const char *format, ...);
int __isoc23_fscanf(FILE *from, const char *format, ...);

/* The shared object or the program that this copy is linked into: its functions go with it. */
extern void *__dso_handle __attribute__((visibility("hidden")));

int stat64(const char *path, struct stat64 *to)
{
	return __xstat64(STAT_VERSION, path, to);
}

int lstat64(const char *path, struct stat64 *to)
{
	return __lxstat64(STAT_VERSION, path, to);
}

int fstat64(int fd, struct stat64 *to)
{
	return __fxstat64(STAT_VERSION, fd, to);
}

int fstatat64(int folder, const char *path, struct stat64 *to, int flags)
{
	return __fxstatat64(STAT_VERSION, folder, path, to, flags);
}

/* An off_t has 64 bits on x86-64, so this is fcntl(). Each argument fits a pointer. */
int fcntl64(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return __fcntl(fd, command, argument);
}

pid_t gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

ssize_t getrandom(void *to, size_t bytes, unsigned int flags)
{
	return syscall(SYS_getrandom, to, bytes, flags);
}

int memfd_create(const char *name, unsigned int flags)
{
	return (int)syscall(SYS_memfd_create, name, flags);
}

int statx(int folder, const char *path, int flags, unsigned int mask, struct statx *to)
{
	return (int)syscall(SYS_statx, folder, path, flags, mask, to);
}

int atexit(void (*function)(void))
{
	return __cxa_atexit((void (*)(void *))(void *)function, NULL, __dso_handle);
}

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return __register_atfork(prepare, parent, child, __dso_handle);
}

/* Since 2.38 glibc's headers use these to read numbers by C23. The only difference is "0b" before binary numbers. */
long __isoc23_strtol(const char *text, char **end, int base)
{
	return old_strtol(text, end, base);
}

long long __isoc23_strtoll(const char *text, char **end, int base)
{
	return old_strtoll(text, end, base);
}

unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
	return old_strtoul(text, end, base);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
	return old_strtoull(text, end, base);
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
	va_list arguments;
	int fields;

	va_start(arguments, format);
	fields = __isoc99_vsscanf(text, format, arguments);
	va_end(arguments);
	return fields;
}

int __isoc23_fscanf(FILE *from, const char *format, ...)
{
	va_list arguments;
	int fields;

	va_start(arguments, format);
	fields = __isoc99_vfscanf(from, format, arguments);
	va_end(arguments);
	return fields;
}
