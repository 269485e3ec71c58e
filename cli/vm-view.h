/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How virtiofsd is kept from writing to this machine's files, whatever a guest makes it do.
 *
 * vm-view.c      a read-only view of the files in a mount namespace, and whether it can be made here
 * vm-landlock.c  `--share unprivileged`: no namespace, but the kernel's Landlock
 * vm-refusal.c   what the kernel refused, in a sentence, and what to do about it
 */
#ifndef VCUDA_CLI_VM_VIEW_H
#define VCUDA_CLI_VM_VIEW_H

#include <stdbool.h>
#include <stddef.h>

enum view_step {
	VIEW_DONE,
	VIEW_ATTEMPT, /* the process or the directory to try it in */
	VIEW_MOUNT_NAMESPACE,
	VIEW_USER_NAMESPACE,
	VIEW_USER_MAP,
	VIEW_PRIVATE,
	VIEW_ROOT,
	VIEW_BIND,
	VIEW_READ_ONLY,
	VIEW_WRITABLE,
	VIEW_HIDE,
	VIEW_LANDLOCK,
};

struct view_attempt {
	enum view_step refused; /* VIEW_DONE: none was */
	int error;
	bool user_namespace; /* an ordinary user's, or of a root without CAP_SYS_ADMIN */
};

/* Records the step, with errno; false. */
bool view_refused(struct view_attempt *attempt, enum view_step step);

/*
 * In the process that is to become virtiofsd, which cannot go back. The view is `directory`/view. `writable`: the one
 * folder of the view that can be written, a real path; NULL: none.
 */
bool view_enter(const char *directory, const char *writable, bool unprivileged, struct view_attempt *attempt);

/* The same in a child process that ends afterwards, with a directory of its own. */
bool view_try(bool unprivileged, struct view_attempt *attempt);

bool landlock_enter(const char *directory, const char *writable, struct view_attempt *attempt);

void refusal_describe(const struct view_attempt *attempt, char *text, size_t size);
/* Names only remedies that fit this machine. `offer`: `--share unprivileged` is one of them. */
void refusal_mend(const struct view_attempt *attempt, bool offer, char *text, size_t size);

#endif
