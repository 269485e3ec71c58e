/* SPDX-License-Identifier: Apache-2.0 */
#include "vm-view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/user-namespace.h"
#include "vm.h"

bool view_refused(struct view_attempt *attempt, enum view_step step)
{
	attempt->refused = step;
	attempt->error = errno;
	return false;
}

/* The process becomes root of a namespace of nothing but itself, which is enough to make mounts. */
static bool enter_user_namespace(struct view_attempt *attempt)
{
	enum vcuda_user_namespace result = vcuda_user_namespace_enter(CLONE_NEWNS, 0, 0);

	if (result == VCUDA_USER_NAMESPACE_REFUSED)
		return view_refused(attempt, VIEW_USER_NAMESPACE);
	attempt->user_namespace = true;
	return result == VCUDA_USER_NAMESPACE_ENTERED || view_refused(attempt, VIEW_USER_MAP);
}

/* A root without CAP_SYS_ADMIN, as in most containers, may still have a user namespace, like an ordinary user. */
static bool enter_namespace(struct view_attempt *attempt)
{
	int error;

	if (geteuid())
		return enter_user_namespace(attempt);
	if (!unshare(CLONE_NEWNS))
		return true;
	error = errno;
	if (enter_user_namespace(attempt))
		return true;
	errno = error;
	return view_refused(attempt, VIEW_MOUNT_NAMESPACE);
}

/* Whether the open directory is "/", and not the same directory in another mount. */
static bool is_root(int directory)
{
	struct statx there, root;

	return !statx(directory, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &there) &&
	       !statx(AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, &root) && there.stx_ino == root.stx_ino &&
	       there.stx_mnt_id == root.stx_mnt_id;
}

static bool pivot(int directory)
{
	int tree = (int)syscall(SYS_open_tree, directory, "",
				AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	const unsigned int both = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
	bool done = tree >= 0 && !syscall(SYS_move_mount, tree, "", directory, "", both) && !fchdir(tree) &&
		    !syscall(SYS_pivot_root, ".", ".") && !umount2(".", MNT_DETACH) && !chdir("/");
	int error = errno;

	if (tree >= 0)
		close(tree);
	errno = error;
	return done;
}

static void close_all(const int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static bool cut_off(struct view_attempt *attempt)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	/* Without CAP_SYS_CHROOT it stays where it is. */
	bool joined = root >= 0 && own >= 0 && !setns(own, CLONE_NEWNS), done = true;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		done = view_refused(attempt, VIEW_PRIVATE);
	else if (joined && !is_root(root) && !pivot(root))
		done = view_refused(attempt, VIEW_ROOT);
	close_all((int[]){root, own}, 2);
	return done;
}

/*
 * No mount that is made here may reach the namespace that we came from. In a chroot that takes more than "/", which
 * need not be a mount there: a process that joins its own namespace gets that namespace's root, and can make all of it
 * private. Then the directory of the chroot becomes the root, for virtiofsd pivots too, and cannot in a chroot.
 */
static bool make_private(struct view_attempt *attempt)
{
	/* virtiofsd may have a relative path. No descriptor: the mounts that pivot() leaves are still writable. */
	char *here = getcwd(NULL, 0);
	bool done = cut_off(attempt);

	if (done && (!here || chdir(here)) && chdir("/"))
		done = view_refused(attempt, VIEW_ROOT);
	free(here);
	return done;
}

/* All mounts become read-only and lose their device nodes; our directory, a mount of its own, stays writable. */
static bool make_read_only(const char *directory, struct view_attempt *attempt)
{
	struct mount_attr all = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV};
	struct mount_attr own = {.attr_clr = MOUNT_ATTR_RDONLY};

	return (!syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &all, sizeof(all)) &&
		!syscall(SYS_mount_setattr, AT_FDCWD, directory, 0, &own, sizeof(own))) ||
	       view_refused(attempt, VIEW_READ_ONLY);
}

/* Another file system below the folder stays read-only, as does the folder itself outside of the view. */
static bool make_writable(const char *view, const char *folder, struct view_attempt *attempt)
{
	struct mount_attr own = {.attr_clr = MOUNT_ATTR_RDONLY};
	char path[VM_PATH + 128];

	snprintf(path, sizeof(path), "%s%s", view, folder);
	return (!mount(path, path, NULL, MS_BIND | MS_REC, NULL) &&
		!syscall(SYS_mount_setattr, AT_FDCWD, path, 0, &own, sizeof(own))) ||
	       view_refused(attempt, VIEW_WRITABLE);
}

/* The kernel's directories may be missing. */
static bool hide(const char *view, const char *directory, bool kernels, struct view_attempt *attempt)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", view, directory);
	return !mount("none", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=4k") ||
	       (kernels && errno == ENOENT) || view_refused(attempt, VIEW_HIDE);
}

/*
 * A view of the host's files in which nothing can be written, whatever virtiofsd is made to do. Every mount is
 * read-only, device nodes are dead, and the kernel's own file systems and our directory are hidden.
 *
 * In a user namespace the view is virtiofsd's chroot, and its descriptor of /proc/self/fd leads out of it. So the same
 * holds outside of the view, with two exceptions. Our directory is writable there: virtiofsd makes its socket in it.
 * /proc is read-only and not hidden: virtiofsd opens /proc/self/fd.
 */
static bool make_view(const char *directory, const char *writable, struct view_attempt *attempt)
{
	char view[128];

	snprintf(view, sizeof(view), "%s/view", directory);
	if (!enter_namespace(attempt) || !make_private(attempt))
		return false;
	if (mount(directory, directory, NULL, MS_BIND, NULL) || mount("/", view, NULL, MS_BIND | MS_REC, NULL))
		return view_refused(attempt, VIEW_BIND);
	return make_read_only(directory, attempt) && (!writable || make_writable(view, writable, attempt)) &&
	       hide(view, directory, false, attempt) && hide(view, "/proc", true, attempt) &&
	       hide(view, "/sys", true, attempt) && hide(view, "/dev", true, attempt) &&
	       hide("", "/sys", true, attempt) && hide("", "/dev", true, attempt);
}

bool view_enter(const char *directory, const char *writable, bool unprivileged, struct view_attempt *attempt)
{
	*attempt = (struct view_attempt){.refused = VIEW_DONE};
	return unprivileged ? landlock_enter(directory, writable, attempt) : make_view(directory, writable, attempt);
}

/* In the child, which reports through the pipe and ends. */
_Noreturn static void try_and_end(const char *directory, bool unprivileged, int report)
{
	struct view_attempt attempt;

	view_enter(directory, NULL, unprivileged, &attempt);
	_exit(write(report, &attempt, sizeof(attempt)) != sizeof(attempt));
}

static bool try_in_child(const char *directory, bool unprivileged, struct view_attempt *attempt)
{
	int report[2];
	ssize_t got;
	pid_t child;

	if (pipe2(report, O_CLOEXEC))
		return view_refused(attempt, VIEW_ATTEMPT);
	child = fork();
	if (!child)
		try_and_end(directory, unprivileged, report[1]);
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

static bool try_in_directory(bool unprivileged, struct view_attempt *attempt)
{
	char directory[VM_DIRECTORY], view[VM_DIRECTORY + 8];

	if (!vm_directory_make(directory))
		return view_refused(attempt, VIEW_ATTEMPT);
	snprintf(view, sizeof(view), "%s/view", directory);
	if (mkdir(view, 0700))
		view_refused(attempt, VIEW_ATTEMPT);
	else
		try_in_child(directory, unprivileged, attempt);
	rmdir(view);
	rmdir(directory);
	return attempt->refused == VIEW_DONE;
}

bool view_try(bool unprivileged, struct view_attempt *attempt)
{
	sigset_t all, before;
	bool done;

	*attempt = (struct view_attempt){.refused = VIEW_DONE};
	/* A signal that ends the process waits until the directory is gone. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	done = try_in_directory(unprivileged, attempt);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return done;
}

bool vm_share_try(bool unprivileged, struct vm_share *share)
{
	struct view_attempt attempt, other;
	bool done = view_try(unprivileged, &attempt);

	*share = (struct vm_share){.sandbox = unprivileged ? "none" : attempt.user_namespace ? "chroot" : "namespace"};
	if (done)
		return true;
	refusal_describe(&attempt, share->refused, sizeof(share->refused));
	refusal_mend(&attempt, !unprivileged && view_try(true, &other), share->mend, sizeof(share->mend));
	return false;
}
