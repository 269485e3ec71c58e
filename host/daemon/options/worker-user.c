/* SPDX-License-Identifier: Apache-2.0 */
#include "options/worker-user.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

/* Returns what is behind the digits; NULL: there is no number of a user or group. */
static const char *parse_id(const char *text, uint32_t *id)
{
	unsigned long value;
	char *end;

	if (*text < '0' || *text > '9')
		return NULL;
	value = strtoul(text, &end, 10);
	*id = (uint32_t)value;
	/* The highest number means "no change" to the kernel. */
	return value < UINT32_MAX ? end : NULL;
}

/* False: it is no number. */
static bool parse_numbers(const char *text, struct daemon_worker_user *user)
{
	const char *rest = parse_id(text, &user->uid);
	const struct passwd *known;

	if (rest && *rest == ':')
		rest = parse_id(rest + 1, &user->gid);
	else if (rest)
		user->gid = (known = getpwuid(user->uid)) ? known->pw_gid : user->uid;
	return rest && !*rest;
}

static bool find_name(const char *text, struct daemon_worker_user *user)
{
	const struct passwd *known = getpwnam(text);

	if (known) {
		user->uid = known->pw_uid;
		user->gid = known->pw_gid;
	}
	return known;
}

bool daemon_worker_user_parse(const char *text, struct daemon_worker_user *user)
{
	user->set = (parse_numbers(text, user) || find_name(text, user)) && user->uid && user->gid;
	return user->set;
}
