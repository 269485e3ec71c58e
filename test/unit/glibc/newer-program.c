/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replacements of guest/glibc work, on the glibc of this machine and, in `make check-long PARTS=old-glibc`, on an old
 * one: the program is linked as guest objects are. Exit status 0, or 1 with a line for each mistake.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc's headers since 2.38 call these. */
long __isoc23_strtol(const char *text, char **end, int base);
long long __isoc23_strtoll(const char *text, char **end, int base);
unsigned long __isoc23_strtoul(const char *text, char **end, int base);
unsigned long long __isoc23_strtoull(const char *text, char **end, int base);
int __isoc23_sscanf(const char *text, const char *format, ...);
int __isoc23_fscanf(FILE *from, const char *format, ...);

static unsigned int wrong, preconstructed, constructed, prepared, in_parent, in_child;
static int constructor_arguments;
static int at_end_to = -1;

#define EXPECT(condition)                                                                                              \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno));          \
			wrong++;                                                                                       \
		}                                                                                                      \
	} while (0)

__attribute__((constructor)) static void construct(int argc, char **argv, char **environment)
{
	constructed++;
	constructor_arguments = argv && argv[0] && environment ? argc : -1;
}

static void construct_early(int argc, char **argv, char **environment)
{
	(void)argc, (void)argv, (void)environment;
	preconstructed++;
}

__attribute__((section(".preinit_array"), used)) static void (*const early)(int, char **, char **) = construct_early;

static void prepare(void)
{
	prepared++;
}

static void parent(void)
{
	in_parent++;
}

static void child(void)
{
	in_child++;
}

static void at_end(void)
{
	if (at_end_to >= 0 && write(at_end_to, "e", 1) != 1)
		_exit(9);
}

static void *thread_number(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)gettid();
}

static void check_files(const char *self)
{
	char folder[] = "/tmp/newer.XXXXXX", link[64];
	struct stat a, b, c, d;
	struct statx x;
	int fd = open(self, O_RDONLY | O_CLOEXEC), at;

	EXPECT(fd >= 0 && !fstat(fd, &a) && !stat(self, &b) && a.st_ino == b.st_ino && a.st_size == b.st_size &&
	       a.st_size > 4096);
	EXPECT(S_ISREG(a.st_mode) && a.st_nlink >= 1 && a.st_mtime > 0);
	EXPECT(stat("/nowhere", &b) == -1 && errno == ENOENT);
	EXPECT(fstat(-1, &b) == -1 && errno == EBADF);
	EXPECT(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s/link", folder);
	EXPECT(!symlink("nowhere", link) && !lstat(link, &c) && S_ISLNK(c.st_mode) && stat(link, &d) == -1);
	at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	EXPECT(!fstatat(at, "link", &d, AT_SYMLINK_NOFOLLOW) && d.st_ino == c.st_ino);
	EXPECT(fstatat(at, "link", &d, 0) == -1 && errno == ENOENT);
	EXPECT(!statx(at, "link", AT_SYMLINK_NOFOLLOW, STATX_INO, &x) && x.stx_ino == c.st_ino);
	close(at);
	unlink(link);
	rmdir(folder);
	EXPECT(fcntl(fd, F_GETFD) == FD_CLOEXEC && !fcntl(fd, F_SETFD, 0) && fcntl(fd, F_GETFD) == 0);
	at = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	EXPECT(at >= 100 && fcntl(at, F_GETFD) == FD_CLOEXEC);
	EXPECT(!fcntl(at, F_SETLK, &(struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET}));
	close(at);
	close(fd);
}

static void check_memory(void)
{
	unsigned char bytes[64] = {0}, zeros[64] = {0};
	int fd = memfd_create("newer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	EXPECT(getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes) && memcmp(bytes, zeros, sizeof(bytes)));
	EXPECT(fd >= 0 && !ftruncate(fd, 4096) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL));
	EXPECT(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_SEAL) && ftruncate(fd, 0) == -1 && errno == EPERM);
	close(fd);
}

static void check_threads(void)
{
	pthread_t thread;
	void *number;

	EXPECT(gettid() == getpid());
	EXPECT(!pthread_create(&thread, NULL, thread_number, NULL) && !pthread_join(thread, &number));
	EXPECT((intptr_t)number > 0 && (intptr_t)number != getpid());
}

/* The child's exit status says what the functions of forks found there, a pipe that its functions at the end ran. */
static void check_ends(void)
{
	int ends[2], status;
	char byte = 0;
	pid_t pid;

	EXPECT(!pthread_atfork(prepare, parent, child) && !atexit(at_end) && !pipe(ends));
	pid = fork();
	if (pid == 0) {
		at_end_to = ends[1];
		exit(prepared == 1 && in_child == 1 && !in_parent ? 7 : 8);
	}
	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
	EXPECT(prepared == 1 && in_parent == 1 && !in_child);
	close(ends[1]);
	EXPECT(read(ends[0], &byte, 1) == 1 && byte == 'e');
	close(ends[0]);
}

static void check_numbers(void)
{
	FILE *from = tmpfile();
	unsigned int a = 0, b = 0;
	char *end, word[8] = "";

	EXPECT(__isoc23_strtol("-12x", &end, 10) == -12 && *end == 'x' && __isoc23_strtoll("0x7f", NULL, 0) == 127);
	EXPECT(__isoc23_strtoul("017", NULL, 0) == 15 &&
	       __isoc23_strtoull("18446744073709551615", NULL, 10) == UINT64_MAX);
	EXPECT(__isoc23_sscanf("7 ab 1f", "%u %7s %x", &a, word, &b) == 3 && a == 7 && !strcmp(word, "ab") && b == 31);
	EXPECT(from && fputs("8 9", from) >= 0 && !fseek(from, 0, SEEK_SET));
	EXPECT(__isoc23_fscanf(from, "%u %u %u", &a, &b, &b) == 2 && a == 8 && b == 9);
	fclose(from);
}

int main(int argc, char **argv)
{
	EXPECT(preconstructed == 1 && constructed == 1 && constructor_arguments == argc);
	check_files(argv[0]);
	check_memory();
	check_threads();
	check_numbers();
	check_ends();
	if (!wrong)
		puts("all is right");
	return wrong > 0;
}
