/* SPDX-License-Identifier: Apache-2.0 */
#include "controller.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "deadline.h"

#define GRES "vcuda"

/* The end of an entry of a list of resources: a comma outside of parentheses. */
static const char *entry_end(const char *entry)
{
	int depth = 0;

	while (*entry && (depth || *entry != ',')) {
		depth += *entry == '(' ? 1 : *entry == ')' ? -1 : 0;
		entry++;
	}
	return entry;
}

/* Reads "vcuda", "vcuda:4", "vcuda:TYPE:4(S:0)" and "vcuda(CNT:4)"; -1: the entry has another form. */
static long entry_count(const char *entry, const char *end)
{
	const char *parenthesis = memchr(entry, '(', (size_t)(end - entry)), *number;
	char *after;
	long count;

	if (parenthesis && !strncmp(parenthesis, "(CNT:", 5)) {
		count = strtol(parenthesis + 5, &after, 10);
		return *after == ')' ? count : -1;
	}
	end = parenthesis ? parenthesis : end;
	number = memrchr(entry, ':', (size_t)(end - entry));
	if (!number)
		return 1;
	count = isdigit((unsigned char)number[1]) ? strtol(number + 1, &after, 10) : -1;
	return count >= 0 && after == end ? count : -1;
}

/* The sum over all entries of our resource in a list such as "gpu:2,vcuda:8"; -1: an entry cannot be read. */
static int count_gres(const char *list)
{
	const size_t length = sizeof(GRES) - 1;
	long sum = 0, count;
	const char *end;

	for (const char *entry = list; entry && *entry; entry = *end ? end + 1 : end) {
		end = entry_end(entry);
		if (strncmp(entry, GRES, length) || !strchr(":(,", entry[length]))
			continue;
		count = entry_count(entry, end);
		if (count < 0 || count > INT_MAX - sum) {
			slurm_error("vcuda: the controller's resources \"%s\" cannot be read", list);
			return -1;
		}
		sum += count;
	}
	return (int)sum;
}

/* After an error: false if it stays, or if it is too late to try again. */
static bool may_try_again(int64_t deadline)
{
	int error = errno;

	if (error == ESLURM_INVALID_JOB_ID || error == ESLURM_INVALID_NODE_NAME || error == ESLURM_ACCESS_DENIED ||
	    !deadline_left(deadline))
		return false;
	sleep(1);
	return true;
}

/* The controller's record of the job, NULL if it knows no such job; -1: it does not answer, or refuses. */
static int load_job(uint32_t job, int64_t deadline, job_info_msg_t **message)
{
	*message = NULL;
	while (slurm_load_job(message, job, SHOW_DETAIL)) {
		*message = NULL;
		if (!may_try_again(deadline))
			return errno == ESLURM_INVALID_JOB_ID ? 0 : -1;
	}
	return 0;
}

static int load_node(const char *node, int64_t deadline, node_info_msg_t **message)
{
	*message = NULL;
	while (slurm_load_node_single(message, (char *)node, 0)) {
		*message = NULL;
		if (!may_try_again(deadline))
			return -1;
	}
	return 0;
}

/* The place of the node among the job's, or -1. */
static int place_of(const job_info_t *job, const char *node)
{
	/* The type has changed between versions of Slurm. */
	__auto_type nodes = slurm_hostlist_create(job->nodes ? job->nodes : "");
	int place = nodes ? slurm_hostlist_find(nodes, node) : -1;

	if (nodes)
		slurm_hostlist_destroy(nodes);
	return place;
}

int controller_job_slices(uint32_t job, const char *node, int64_t deadline)
{
	job_info_msg_t *message;
	int slices = 0, place;

	if (load_job(job, deadline, &message)) {
		slurm_error("vcuda: job %u: slurmctld does not say what the job has: %s", job, slurm_strerror(errno));
		return -1;
	}
	for (uint32_t i = 0; message && i < message->record_count && slices >= 0; i++) {
		const job_info_t *record = &message->job_array[i];

		place = record->job_id == job ? place_of(record, node) : -1;
		if (place >= 0 && (uint32_t)place < record->gres_detail_cnt)
			slices = count_gres(record->gres_detail_str[place]);
	}
	if (message)
		slurm_free_job_info_msg(message);
	return slices;
}

int controller_node_slices(const char *node, int64_t deadline)
{
	node_info_msg_t *message;
	int slices = -1;

	if (load_node(node, deadline, &message)) {
		slurm_error("vcuda: slurmctld does not say what node %s has: %s", node, slurm_strerror(errno));
		return -1;
	}
	for (uint32_t i = 0; i < message->record_count; i++)
		if (message->node_array[i].name && !strcmp(message->node_array[i].name, node))
			slices = count_gres(message->node_array[i].gres);
	slurm_free_node_info_msg(message);
	return slices;
}

int controller_job_is_gone(uint32_t job, const char *node)
{
	job_info_msg_t *message;
	int is_gone = 1;

	if (load_job(job, 0, &message))
		return -1;
	for (uint32_t i = 0; message && i < message->record_count; i++) {
		const job_info_t *record = &message->job_array[i];
		uint32_t state = record->job_state & JOB_STATE_BASE;

		if (record->job_id == job && place_of(record, node) >= 0 &&
		    (record->job_state & JOB_COMPLETING || state == JOB_RUNNING || state == JOB_SUSPENDED))
			is_gone = 0;
	}
	if (message)
		slurm_free_job_info_msg(message);
	return is_gone;
}
