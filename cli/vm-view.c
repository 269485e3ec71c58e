/* SPDX-License-Identifier: Apache-2.0 */
#include "vm-view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm.h"

bool view_refused(struct view_attempt *attempt, enum view_step step)
{
	attempt->refused = step;
	attempt->error = errno;
	return false;
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return done;
}

/* The process becomes root of a namespace of nothing but itself, which is enough to make mounts. */
static bool enter_user_namespace(struct view_attempt *attempt)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return view_refused(attempt, VIEW_USER_NAMESPACE);
	attempt->user_namespace = true;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (!write_file("/proc/self/uid_map", map) || !write_file("/proc/self/setgroups", "deny"))
		return view_refused(attempt, VIEW_USER_MAP);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return write_file("/proc/self/gid_map", map) || view_refused(attempt, VIEW_USER_MAP);
}

static bool enter_namespace(struct view_attempt *attempt)
{
	if (geteuid())
		return enter_user_namespace(attempt);
	return !unshare(CLONE_NEWNS) || view_refused(attempt, VIEW_MOUNT_NAMESPACE);
}

/*
 * A view of the host's files in which nothing can be written, whatever virtiofsd is made to do: every mount below is
 * read-only, device nodes are dead, and the kernel's own file systems and our directory are hidden.
 */
static bool make_view(const char *directory, struct view_attempt *attempt)
{
	const char *const hidden[] = {"/proc", "/sys", "/dev", directory};
	struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV};
	char view[128], path[256];
	size_t i;

	snprintf(view, sizeof(view), "%s/view", directory);
	if (!enter_namespace(attempt))
		return false;
	/* No mount that is made here may reach the namespace that we came from. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return view_refused(attempt, VIEW_PRIVATE);
	if (mount("/", view, NULL, MS_BIND | MS_REC, NULL))
		return view_refused(attempt, VIEW_BIND);
	if (syscall(SYS_mount_setattr, AT_FDCWD, view, AT_RECURSIVE, &attributes, sizeof(attributes)))
		return view_refused(attempt, VIEW_READ_ONLY);
	for (i = 0; i < sizeof(hidden) / sizeof(*hidden); i++) {
		snprintf(path, sizeof(path), "%s%s", view, hidden[i]);
		if (mount("none", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=4k") &&
		    (errno != ENOENT || hidden[i] == directory))
			return view_refused(attempt, VIEW_HIDE);
	}
	return true;
}

bool view_enter(const char *directory, struct view_attempt *attempt)
{
	*attempt = (struct view_attempt){.refused = VIEW_DONE};
	return make_view(directory, attempt);
}

/* In the child, which reports through the pipe and ends. */
_Noreturn static void try_and_end(const char *directory, int report)
{
	struct view_attempt attempt;

	view_enter(directory, &attempt);
	_exit(write(report, &attempt, sizeof(attempt)) != sizeof(attempt));
}

static bool try_in_child(const char *directory, struct view_attempt *attempt)
{
	int report[2];
	ssize_t got;
	pid_t child;

	if (pipe2(report, O_CLOEXEC))
		return view_refused(attempt, VIEW_ATTEMPT);
	child = fork();
	if (!child)
		try_and_end(directory, report[1]);
	close(report[1]);
	errno = child > 0 ? EIO : errno;
	got = child > 0 ? read(report[0], attempt, sizeof(*attempt)) : -1;
	if (got != sizeof(*attempt))
		view_refused(attempt, VIEW_ATTEMPT);
	close(report[0]);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
	return attempt->refused == VIEW_DONE;
}

bool view_try(struct view_attempt *attempt)
{
	char directory[VM_DIRECTORY], view[VM_DIRECTORY + 8];

	*attempt = (struct view_attempt){.refused = VIEW_DONE};
	if (!vm_directory_make(directory))
		return view_refused(attempt, VIEW_ATTEMPT);
	snprintf(view, sizeof(view), "%s/view", directory);
	if (mkdir(view, 0700))
		view_refused(attempt, VIEW_ATTEMPT);
	else
		try_in_child(directory, attempt);
	rmdir(view);
	rmdir(directory);
	return attempt->refused == VIEW_DONE;
}

bool vm_share_try(struct vm_share *share)
{
	struct view_attempt attempt;
	bool done = view_try(&attempt);

	*share = (struct vm_share){.sandbox = attempt.user_namespace ? "chroot" : "namespace"};
	if (done)
		return true;
	refusal_describe(&attempt, share->refused, sizeof(share->refused));
	refusal_mend(&attempt, share->mend, sizeof(share->mend));
	return false;
}
