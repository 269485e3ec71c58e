/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused HOW PROGRAM [ARGUMENT...]: runs the program where the kernel refuses namespaces, as any user may set it up,
 * in a user namespace of its own whose limits and capabilities are the test's.
 *
 *   limit         an ordinary user; user.max_user_namespaces is 0
 *   root          root without CAP_SYS_ADMIN, and the same limit
 *   root-limited  root with CAP_SYS_ADMIN, and the same limit
 *   capability    root without CAP_SYS_ADMIN, no limit
 *   chroot        an ordinary user in a chroot that is no mount
 *   chroot-root   root in such a chroot
 *   filter        the same user, in no namespace; seccomp refuses namespaces and mounts
 *   landlock      limit, and seccomp refuses Landlock
 *   kernel        the same user, in no namespace; system calls that Linux got after 5.0 do not exist
 *
 * 77: such a situation cannot be made here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ORDINARY 1000

static void need(int done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "refused: %s: %s\n", what, strerror(errno));
	exit(77);
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !close(fd);
}

/* `inside`: the user's and group's number there. All capabilities are the process's until it runs a program. */
static void enter(unsigned int inside)
{
	unsigned int uid = geteuid(), gid = getegid();
	char map[64];

	need(!unshare(CLONE_NEWUSER | CLONE_NEWNS), "no user namespace");
	snprintf(map, sizeof(map), "%u %u 1", inside, uid);
	need(write_file("/proc/self/uid_map", map) && write_file("/proc/self/setgroups", "deny"), "uid_map");
	snprintf(map, sizeof(map), "%u %u 1", inside, gid);
	need(write_file("/proc/self/gid_map", map), "gid_map");
}

static void limit(void)
{
	need(write_file("/proc/sys/user/max_user_namespaces", "0"), "user.max_user_namespaces");
}

static void drop_capability(void)
{
	need(!prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0), "capabilities");
}

/* One entry of "/" in the chroot: a link as it is, all else with what is mounted below it. */
static void take_over(const char *name, const char *top)
{
	char from[300], to[600], target[256];
	ssize_t length;
	struct stat file;
	int fd;

	snprintf(from, sizeof(from), "/%s", name);
	snprintf(to, sizeof(to), "%s/%s", top, name);
	if (lstat(from, &file))
		return;
	if (S_ISLNK(file.st_mode)) {
		length = readlink(from, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		need(!symlink(target, to), to);
		return;
	}
	if (S_ISDIR(file.st_mode)) {
		need(!mkdir(to, 0755), to);
	} else {
		fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		need(fd >= 0, to);
		close(fd);
	}
	need(!mount(from, to, NULL, MS_BIND | MS_REC, NULL), from);
}

/* The new root is a folder of a tmpfs, with all that is in "/" but the place of that tmpfs. */
static void enter_chroot(void)
{
	char *here = getcwd(NULL, 0), top[32];
	const char *place = here && !strncmp(here, "/mnt/", 5) ? "media" : "mnt";
	DIR *root = opendir("/");
	struct dirent *entry;

	snprintf(top, sizeof(top), "/%s/root", place);
	need(root && here, "/");
	/* So that a mount that is made in a namespace of the program's, and is not kept there, shows up here. */
	need(!mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL), "shared mounts");
	need(!chdir("/") && !mount("none", place, "tmpfs", 0, NULL) && !mkdir(top, 0755), top);
	while ((entry = readdir(root)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, place))
			take_over(entry->d_name, top);
	closedir(root);
	need(!chroot(top) && !chdir(here), "chroot");
	free(here);
}

/* Each of these system calls fails with EPERM. */
static void refuse_calls(const int *calls, unsigned char count)
{
	struct sock_filter code[32] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = {.len = (unsigned short)(count + 3), .filter = code};
	unsigned char i;

	for (i = 0; i < count; i++)
		code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)calls[i],
							   (unsigned char)(count - i), 0);
	code[1 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[2 + count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
	     "seccomp");
}

/* All system calls from this number on fail with ENOSYS. */
static void end_calls_at(unsigned int number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
	     "seccomp");
}

static void prepare(const char *how)
{
	static const int namespaces[] = {SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root};
	static const int landlock[] = {SYS_landlock_create_ruleset, SYS_landlock_restrict_self};
	int root = !strcmp(how, "root") || !strcmp(how, "root-limited") || !strcmp(how, "capability") ||
		   !strcmp(how, "chroot-root");

	if (!strcmp(how, "kernel")) {
		end_calls_at(SYS_pidfd_send_signal);
		return;
	}
	if (!strcmp(how, "filter")) {
		refuse_calls(namespaces, sizeof(namespaces) / sizeof(*namespaces));
		return;
	}
	enter(root ? 0 : ORDINARY);
	if (!strncmp(how, "chroot", 6))
		enter_chroot();
	else if (strcmp(how, "capability"))
		limit();
	if (!strcmp(how, "root") || !strcmp(how, "capability"))
		drop_capability();
	if (!strcmp(how, "landlock"))
		refuse_calls(landlock, sizeof(landlock) / sizeof(*landlock));
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fputs("usage: refused HOW PROGRAM [ARGUMENT...]\n", stderr);
		return 2;
	}
	prepare(argv[1]);
	execvp(argv[2], argv + 2);
	fprintf(stderr, "refused: %s: %s\n", argv[2], strerror(errno));
	return 127;
}
