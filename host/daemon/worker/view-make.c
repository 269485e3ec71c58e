/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/view-make.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptors.h"
#include "common/user-namespace.h"

#define DATA_FLAGS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define LIBRARY_FLAGS (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define KEEP_FLAGS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

#define SHARED "/dev/shm"

/* A read-only mount does not keep a device from being written to. */
static const uint64_t flags_of[WORKER_FILE_KINDS] = {
	[WORKER_FILE_LIBRARY] = LIBRARY_FLAGS,
	[WORKER_FILE_PROGRAM] = LIBRARY_FLAGS,
	[WORKER_FILE_DATA] = DATA_FLAGS,
	[WORKER_FILE_PROC] = DATA_FLAGS,
	[WORKER_FILE_DEVICE] = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
	[WORKER_FILE_KEEP] = KEEP_FLAGS,
	[WORKER_FILE_SHARED] = KEEP_FLAGS,
	[WORKER_FILE_SERVICE] = KEEP_FLAGS,
	[WORKER_FILE_SOCKET] = DATA_FLAGS,
};

static const int access_of[WORKER_FILE_KINDS] = {
	[WORKER_FILE_LIBRARY] = R_OK | X_OK, [WORKER_FILE_PROGRAM] = R_OK | X_OK,
	[WORKER_FILE_DEVICE] = R_OK | W_OK,  [WORKER_FILE_KEEP] = R_OK | W_OK | X_OK,
	[WORKER_FILE_SOCKET] = R_OK | W_OK,
};

static const struct {
	int flag;
	const char *name;
} namespaces_of_view[DAEMON_VIEW_NAMESPACES] = {
	[DAEMON_VIEW_USER] = {CLONE_NEWUSER, "user"},
	[DAEMON_VIEW_MOUNTS] = {CLONE_NEWNS, "mnt"},
	[DAEMON_VIEW_NETWORK] = {CLONE_NEWNET, "net"},
	[DAEMON_VIEW_IPC] = {CLONE_NEWIPC, "ipc"},
};

struct file {
	enum worker_file_kind kind;
	bool needed;
	int mount; /* a mount of it that is nowhere yet */
	char *place;
};

/* The child's message to vcudad. */
struct report {
	int status;
	int namespaces; /* CLONE_NEW... */
	struct daemon_view_failure failure;
};

struct build {
	const struct daemon_view_plan *plan;
	struct report report;
	struct file *files;
	unsigned int count, room;
	int shared; /* a mount of the earlier view's /dev/shm; -1: there is none */
	bool has_service;
};

/* ---- in the child ---- */

__attribute__((format(printf, 2, 3))) static int refused(struct build *b, const char *format, ...)
{
	struct daemon_view_failure *failure = &b->report.failure;
	int error = errno;
	va_list arguments;
	size_t n;

	va_start(arguments, format);
	vsnprintf(failure->text, sizeof(failure->text), format, arguments);
	va_end(arguments);
	n = strlen(failure->text);
	snprintf(failure->text + n, sizeof(failure->text) - n, ": %s", strerror(error));
	return -error;
}

/* Workers of the earlier view share memory by names there. A new mount namespace belongs to the user namespace. */
static int enter_earlier(struct build *b, const int earlier[DAEMON_VIEW_NAMESPACES])
{
	b->report.namespaces = 0;
	for (int i = 0; i < DAEMON_VIEW_NAMESPACES; i++) {
		if (earlier[i] < 0)
			continue;
		b->report.namespaces |= namespaces_of_view[i].flag;
		if (i != DAEMON_VIEW_MOUNTS && setns(earlier[i], namespaces_of_view[i].flag))
			return refused(b, "cannot enter the %s namespace of earlier workers",
				       namespaces_of_view[i].name);
	}
	return unshare(CLONE_NEWNS) ? refused(b, "it may make no mount namespace") : 0;
}

/* The user keeps its number, and has all capabilities there until exec. */
static int enter_user_namespace(struct build *b)
{
	const int others = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC;

	b->report.namespaces = CLONE_NEWUSER | others;
	switch (vcuda_user_namespace_enter(others, geteuid(), getegid())) {
	case VCUDA_USER_NAMESPACE_ENTERED:
		return 0;
	case VCUDA_USER_NAMESPACE_REFUSED:
		return refused(b, "it may make neither a mount namespace nor a user namespace");
	default:
		return refused(b, "cannot keep the user and group in a user namespace");
	}
}

static int enter_new(struct build *b)
{
	b->report.namespaces = CLONE_NEWNS;
	if (!unshare(CLONE_NEWNS))
		return 0;
	return b->plan->alone ? enter_user_namespace(b) : refused(b, "it may make no mount namespace");
}

/* Mounts of the host still come and go there: a file system that the host gives up is not kept. */
static int enter_namespaces(struct build *b)
{
	int status = b->plan->earlier ? enter_earlier(b, b->plan->earlier) : enter_new(b);

	if (status)
		return status;
	return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) ? refused(b, "cannot cut the mount namespace off") : 0;
}

static struct file *new_file(struct build *b)
{
	if (b->count == b->room) {
		unsigned int room = b->room ? 2 * b->room : 64;
		struct file *files = realloc(b->files, room * sizeof(*files));

		if (!files)
			return NULL;
		b->files = files;
		b->room = room;
	}
	return &b->files[b->count++];
}

/* Leaves out a path that is missing or that vcudad may not see. */
static int add(struct build *b, const struct worker_file *listed, uint64_t flags)
{
	struct mount_attr attributes = {.attr_set = flags};
	int fd =
		(int)syscall(SYS_open_tree, AT_FDCWD, listed->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	struct file *file;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (fd < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes)))
		return refused(b, "cannot mount %s for workers", listed->path);
	file = new_file(b);
	if (file)
		*file = (struct file){listed->kind, listed->needed, fd, strdup(listed->place)};
	if (!file || !file->place) {
		errno = ENOMEM;
		return refused(b, "cannot list the files of workers");
	}
	return 0;
}

/* /proc is mounted as a whole. */
static int add_listed(void *build, const struct worker_file *listed)
{
	struct build *b = build;

	if (listed->kind == WORKER_FILE_SELF || listed->kind == WORKER_FILE_THREADS)
		return 0;
	b->has_service |= listed->kind == WORKER_FILE_SERVICE && !access(listed->path, F_OK);
	return add(b, listed, flags_of[listed->kind]);
}

/*
 * A user namespace may mount no /proc. The kernel keeps processes in it from the memory and the files of those outside.
 */
static int add_files(struct build *b)
{
	const struct worker_file proc = {.kind = WORKER_FILE_PROC, .path = "/proc", .place = "/proc"};
	int status = b->report.namespaces & CLONE_NEWUSER ? add(b, &proc, KEEP_FLAGS) : 0;

	return status ? status : worker_files_visit(b->plan->files, add_listed, b);
}

/* Afterwards this process has another root and folder. */
static int open_earlier_shared(struct build *b, int mounts)
{
	if (setns(mounts, CLONE_NEWNS))
		return refused(b, "cannot enter the files of earlier workers");
	b->shared = (int)syscall(SYS_open_tree, AT_FDCWD, SHARED, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return b->shared < 0 && errno != ENOENT ? refused(b, "cannot mount " SHARED " of earlier workers") : 0;
}

/* The kernel mounts nothing of another mount namespace: this process is in the earlier view's for a moment. */
static int add_earlier_shared(struct build *b)
{
	int own, root, here, status;

	b->shared = -1;
	if (!b->plan->earlier)
		return 0;
	own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	root = open("/", O_PATH | O_CLOEXEC);
	here = open(".", O_PATH | O_CLOEXEC);
	if (own < 0 || root < 0 || here < 0)
		return refused(b, "cannot open the mount namespace of workers");
	status = open_earlier_shared(b, b->plan->earlier[DAEMON_VIEW_MOUNTS]);
	if (status)
		return status;
	if (setns(own, CLONE_NEWNS) || fchdir(root) || chroot(".") || fchdir(here))
		return refused(b, "cannot leave the files of earlier workers");
	close(own);
	close(root);
	close(here);
	return 0;
}

/* Makes an empty root, which has of the old root only the mounts of add(). */
static int enter_root(struct build *b)
{
	int context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), root = -1;

	if (context >= 0 && !syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "mode", "755", 0) &&
	    !syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		root = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, KEEP_FLAGS);
	if (root < 0 || syscall(SYS_move_mount, root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) || fchdir(root) ||
	    syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
		return refused(b, "cannot make a root for workers");
	return 0;
}

/* No worker sees a process that it may not trace. */
static int mount_proc(struct build *b)
{
	if (b->report.namespaces & CLONE_NEWUSER)
		return 0;
	if (mkdir("/proc", 0755) ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=ptraceable"))
		return refused(b, "cannot mount /proc for workers");
	return 0;
}

/* ---- places ---- */

static void make_folders(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
}

static bool make_place(char *place, bool is_folder)
{
	make_folders(place);
	return !(is_folder ? mkdir(place, 0755) : mknod(place, S_IFREG | 0444, 0)) || errno == EEXIST;
}

/* Seen through the mount of a folder above it, which gives no more rights and no fewer. */
static bool is_there(const struct file *file, const struct stat *own)
{
	const uint64_t flags = flags_of[file->kind];
	struct stat there;
	struct statvfs mount;

	return flags & MOUNT_ATTR_RDONLY && flags & MOUNT_ATTR_NODEV && !stat(file->place, &there) &&
	       there.st_dev == own->st_dev && there.st_ino == own->st_ino && !statvfs(file->place, &mount) &&
	       mount.f_flag & ST_RDONLY && (flags & MOUNT_ATTR_NOEXEC || !(mount.f_flag & ST_NOEXEC));
}

static int place(struct build *b, const struct file *file)
{
	struct stat own;

	/* A library path of "/" would show all. */
	if (!strcmp(file->place, "/"))
		return 0;
	if (fstat(file->mount, &own))
		return refused(b, "cannot look at %s", file->place);
	if (is_there(file, &own))
		return 0;
	if (make_place(file->place, S_ISDIR(own.st_mode)) &&
	    !syscall(SYS_move_mount, file->mount, "", AT_FDCWD, file->place,
		     MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS))
		return 0;
	/* The folder above is listed too, and has no such file: there is a link in the path. */
	return errno == EROFS || errno == ENOENT ? 0 : refused(b, "cannot show workers %s", file->place);
}

/* NVIDIA's driver shares memory there with the VM's other workers, and with the service of MPS. */
static int place_shared(struct build *b, const struct file *file)
{
	if (!b->plan->alone || b->has_service)
		return place(b, file);
	if (make_place(file->place, true) &&
	    (b->shared < 0
		     ? !mount("tmpfs", file->place, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=64m")
		     : !syscall(SYS_move_mount, b->shared, "", AT_FDCWD, file->place, MOVE_MOUNT_F_EMPTY_PATH)))
		return 0;
	return refused(b, "cannot make %s for workers", file->place);
}

/* A folder is made before its files. */
static int by_place(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->place, ((const struct file *)b)->place);
}

static int place_all(struct build *b)
{
	int status = 0;

	qsort(b->files, b->count, sizeof(*b->files), by_place);
	for (unsigned int i = 0; i < b->count && !status; i++)
		status =
			b->files[i].kind == WORKER_FILE_SHARED ? place_shared(b, &b->files[i]) : place(b, &b->files[i]);
	return status;
}

static int close_root(struct build *b, char *here)
{
	struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};

	/* Paths in the environment may be relative. */
	if (here)
		make_place(here, true);
	if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attributes, sizeof(attributes)))
		return refused(b, "cannot make the root of workers read-only");
	return 0;
}

/* ---- the workers' user ---- */

int daemon_view_set_user(const struct daemon_view_plan *plan)
{
	const struct daemon_worker_user *user = &plan->user;

	if (!user->set)
		return 0;
	/* The worker itself may not. */
	for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
		prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	return setgroups(plan->group_count, plan->groups) || setresgid(user->gid, user->gid, user->gid) ||
			       setresuid(user->uid, user->uid, user->uid)
		       ? -errno
		       : 0;
}

static int check_user(struct build *b)
{
	uid_t uid = b->plan->user.uid;

	if (!b->plan->user.set)
		return 0;
	b->report.failure.user = true;
	if (daemon_view_set_user(b->plan))
		return refused(b, "vcudad cannot take the user %u", uid);
	for (unsigned int i = 0; i < b->count; i++) {
		const struct file *file = &b->files[i];

		if (file->needed && access(file->place, access_of[file->kind]))
			return refused(b, "user %u cannot use %s", uid, file->place);
	}
	return 0;
}

static int build(struct build *b)
{
	char *here = getcwd(NULL, 0);
	int status = enter_namespaces(b);

	/* Each file is a descriptor. */
	vcuda_descriptors_raise();
	if (!status)
		status = add_earlier_shared(b);
	if (!status)
		status = add_files(b);
	umask(0);
	if (!status)
		status = enter_root(b);
	if (!status)
		status = mount_proc(b);
	if (!status)
		status = place_all(b);
	if (!status)
		status = close_root(b, here);
	return status;
}

static void tell(const struct build *b, int socket)
{
	send(socket, &b->report, sizeof(b->report), MSG_NOSIGNAL);
}

/* Which user it has decides what vcudad may see of it: vcudad opens the namespaces first. */
_Noreturn static void build_and_tell(const struct daemon_view_plan *plan, int socket)
{
	static struct build b;
	char byte;

	b.plan = plan;
	b.report.status = build(&b);
	tell(&b, socket);
	if (recv(socket, &byte, 1, 0) == 1) {
		b.report.status = check_user(&b);
		tell(&b, socket);
	}
	_exit(0);
}

/* ---- in vcudad ---- */

static int open_namespaces(pid_t child, int which, int namespaces[DAEMON_VIEW_NAMESPACES])
{
	char path[64];
	int status = 0;

	for (int i = 0; i < DAEMON_VIEW_NAMESPACES && !status; i++) {
		if (!(which & namespaces_of_view[i].flag))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", child, namespaces_of_view[i].name);
		namespaces[i] = open(path, O_RDONLY | O_CLOEXEC);
		status = namespaces[i] < 0 ? -errno : 0;
	}
	return status;
}

static int hear(int socket, struct report *report)
{
	return recv(socket, report, sizeof(*report), 0) == sizeof(*report) ? report->status : -ECHILD;
}

static int take(pid_t child, int socket, int namespaces[DAEMON_VIEW_NAMESPACES], struct report *report)
{
	int status = hear(socket, report);

	if (!status)
		status = open_namespaces(child, report->namespaces, namespaces);
	if (!status)
		status = send(socket, "", 1, MSG_NOSIGNAL) == 1 ? hear(socket, report) : -ECHILD;
	for (int i = 0; status && i < DAEMON_VIEW_NAMESPACES; i++) {
		if (namespaces[i] >= 0)
			close(namespaces[i]);
		namespaces[i] = -1;
	}
	return status;
}

int daemon_view_make(const struct daemon_view_plan *plan, int namespaces[DAEMON_VIEW_NAMESPACES],
		     struct daemon_view_failure *failure)
{
	static struct report report;
	int pair[2], status;
	pid_t child;

	for (int i = 0; i < DAEMON_VIEW_NAMESPACES; i++)
		namespaces[i] = -1;
	report = (struct report){.failure.text = "the process that makes it has failed"};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	child = fork();
	if (!child) {
		close(pair[0]);
		build_and_tell(plan, pair[1]);
	}
	status = child < 0 ? -errno : 0;
	close(pair[1]);
	if (!status)
		status = take(child, pair[0], namespaces, &report);
	close(pair[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	*failure = report.failure;
	return status;
}
