/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/log.h"
#include "host/sandbox/stages.h"

enum mode { OFF, LOG, BEST_EFFORT, STRICT };

static const char *const names[] = {"off", "log", "best-effort", "strict"};
static enum mode mode = BEST_EFFORT;

bool sandbox_choose(const char *text)
{
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i])) {
			mode = (enum mode)i;
			return true;
		}
	}
	return false;
}

const char *sandbox_mode(void)
{
	return names[mode];
}

/* vcudad has said which layers the kernel lacks. */
static bool may_miss(const char *layer, int err)
{
	bool absent = err == -ENOSYS || err == -EOPNOTSUPP;

	if (!err)
		return true;
	if (!absent || mode == STRICT)
		vcuda_log("sandbox: %s: %s", layer, strerror(-err));
	return mode != STRICT;
}

bool sandbox_enter(const struct sandbox_needs *needs)
{
	int err;

	if (mode == OFF)
		return true;
	err = sandbox_be_first_victim();
	if (!may_miss("the process is not the first to go when memory runs out", err))
		return false;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) {
		vcuda_log("sandbox: privileges can be had by starting a program: %s", strerror(errno));
		return false;
	}
	err = sandbox_limit_files(needs);
	if (!may_miss("Landlock does not limit which files are opened", err))
		return false;
	err = sandbox_drop_privileges(needs && !err);
	return may_miss("capabilities stay", err);
}

bool sandbox_close(enum sandbox_role role)
{
	static const enum sandbox_unknown unknown[] = {
		[LOG] = SANDBOX_LOG_AND_GO_ON, [BEST_EFFORT] = SANDBOX_LOG_AND_END, [STRICT] = SANDBOX_KILL};

	return mode == OFF || may_miss("no list limits the system calls", sandbox_limit_calls(role, unknown[mode]));
}

bool sandbox_forbid_processes(void)
{
	return mode == OFF || may_miss("a compiler may start processes", sandbox_limit_processes());
}
