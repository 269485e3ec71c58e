/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/view.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/environment.h"
#include "worker/view-make.h"

#define MOST_GROUPS 8

/* The files that a view depends on. */
struct survey {
	uint64_t state; /* another one where a file has come, gone, or been replaced */
	gid_t groups[MOST_GROUPS];
	unsigned int group_count; /* number of groups of GPU nodes that are not open to all users */
};

static struct {
	bool made;
	struct survey survey;
	int namespaces[DAEMON_VIEW_NAMESPACES];
} view;

/* ---- the files ---- */

static void mix(uint64_t *hash, const void *data, size_t bytes)
{
	const unsigned char *byte = data;

	/* FNV-1a */
	for (size_t i = 0; i < bytes; i++)
		*hash = (*hash ^ byte[i]) * 0x100000001b3;
}

static void note_group(struct survey *s, const struct stat *node)
{
	const mode_t group = S_IRGRP | S_IWGRP, others = S_IROTH | S_IWOTH;

	if ((node->st_mode & others) == others || (node->st_mode & group) != group || !node->st_gid)
		return;
	for (unsigned int i = 0; i < s->group_count; i++)
		if (s->groups[i] == node->st_gid)
			return;
	if (s->group_count < MOST_GROUPS)
		s->groups[s->group_count++] = node->st_gid;
}

static int look(void *survey, const struct worker_file *file)
{
	struct survey *s = survey;
	struct stat found;
	/* The links in a folder of libraries may change. */
	bool is_library = file->kind == WORKER_FILE_LIBRARY;

	if (file->kind == WORKER_FILE_SELF || file->kind == WORKER_FILE_THREADS || stat(file->path, &found))
		return 0;
	mix(&s->state, file->place, strlen(file->place) + 1);
	mix(&s->state, &found.st_dev, sizeof(found.st_dev));
	mix(&s->state, &found.st_ino, sizeof(found.st_ino));
	/* A node's owner and mode decide about the groups of workers. A worker may change the mode of its own cache. */
	if (file->kind == WORKER_FILE_DEVICE) {
		mix(&s->state, &found.st_uid, sizeof(found.st_uid));
		mix(&s->state, &found.st_gid, sizeof(found.st_gid));
		mix(&s->state, &found.st_mode, sizeof(found.st_mode));
	}
	mix(&s->state, &found.st_mtim, is_library ? sizeof(found.st_mtim) : 0);
	if (file->kind == WORKER_FILE_DEVICE && file->needed)
		note_group(s, &found);
	return 0;
}

static struct worker_file_needs needs_of(const struct daemon_options *options, char *const environment[])
{
	return (struct worker_file_needs){.cpu = strcmp(options->backend, "cuda") != 0,
					  .cuda = strcmp(options->backend, "cpu") != 0,
					  .program = options->worker,
					  .keeper = options->keeper,
					  .libraries = worker_library_folders(options->worker),
					  .environment = (const char *const *)environment};
}

/* ---- making it ---- */

static bool is_alone(const struct daemon_options *options)
{
	return !options->socket;
}

static void close_namespaces(void)
{
	for (int i = 0; view.made && i < DAEMON_VIEW_NAMESPACES; i++)
		if (view.namespaces[i] >= 0)
			close(view.namespaces[i]);
	view.made = false;
}

static int make(const struct daemon_options *options, struct worker_file_needs *needs, const struct survey *survey,
		struct daemon_view_failure *failure)
{
	const struct daemon_view_plan plan = {.files = needs,
					      .user = options->user,
					      .groups = survey->groups,
					      .group_count = survey->group_count,
					      .alone = is_alone(options),
					      .earlier = view.made ? view.namespaces : NULL};
	int namespaces[DAEMON_VIEW_NAMESPACES], status;

	needs->links = true;
	status = daemon_view_make(&plan, namespaces, failure);
	/* A second try would fail as well, until something changes. */
	view.survey.state = survey->state;
	if (status)
		return status;
	close_namespaces();
	memcpy(view.namespaces, namespaces, sizeof(namespaces));
	view.survey = *survey;
	view.made = true;
	return 0;
}

int daemon_view_open(const struct daemon_options *options, struct daemon_view_failure *failure)
{
	const char *test = getenv("VCUDA_TEST_VIEW");
	char **environment = daemon_worker_environment(options);
	struct worker_file_needs needs;
	struct survey survey = {0};
	int status;

	if (!environment)
		return -ENOMEM;
	needs = needs_of(options, environment);
	worker_files_visit(&needs, look, &survey);
	*failure = (struct daemon_view_failure){.text = "VCUDA_TEST_VIEW=none"};
	status = test && !strcmp(test, "none") ? -EPERM : make(options, &needs, &survey, failure);
	free(environment);
	return status;
}

void daemon_view_refresh(const struct daemon_options *options, char *const environment[])
{
	struct worker_file_needs needs = needs_of(options, environment);
	struct daemon_view_failure failure;
	struct survey survey = {0};

	if (!view.made)
		return;
	worker_files_visit(&needs, look, &survey);
	if (survey.state == view.survey.state)
		return;
	if (make(options, &needs, &survey, &failure))
		vcuda_log("workers do not see files that have changed: %s", failure.text);
	else
		vcuda_log_debug("workers' files have changed: they have a new view");
}

/* ---- in the process that becomes a worker ---- */

int daemon_view_enter(void)
{
	char *here = view.made ? getcwd(NULL, 0) : NULL;

	for (int i = 0; view.made && i < DAEMON_VIEW_NAMESPACES; i++)
		if (view.namespaces[i] >= 0 && setns(view.namespaces[i], 0))
			return -errno;
	return here && chdir(here) ? -errno : 0;
}

int daemon_view_become_user(const struct daemon_options *options)
{
	const struct daemon_view_plan plan = {
		.user = options->user, .groups = view.survey.groups, .group_count = view.survey.group_count};

	return daemon_view_set_user(&plan);
}
