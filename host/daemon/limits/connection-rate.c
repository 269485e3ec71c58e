/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/connection-rate.h"

#include <stdlib.h>

#define TOKEN 1000 /* one connection, in thousandths */
#define FULL (DAEMON_CONNECTION_BURST * TOKEN)

struct user {
	struct vcuda_list entry;
	uid_t uid;
	uint64_t tokens, refilled;
};

void daemon_connection_rate_init(struct daemon_connection_rate *rate)
{
	vcuda_list_init(&rate->users);
}

static void user_free(struct user *user)
{
	vcuda_list_remove(&user->entry);
	free(user);
}

void daemon_connection_rate_free(struct daemon_connection_rate *rate)
{
	struct user *user, *after;

	vcuda_list_for_each_safe (user, after, &rate->users, struct user, entry)
		user_free(user);
}

static void refill(struct user *user, uint64_t now)
{
	uint64_t missing = FULL - user->tokens, gained = now - user->refilled;

	/* A token's thousandth in 1/DAEMON_CONNECTIONS_PER_S ms. */
	gained = gained > FULL ? FULL : gained * DAEMON_CONNECTIONS_PER_S;
	user->tokens += gained < missing ? gained : missing;
	user->refilled = now;
}

/* Users whose buckets are full are as good as unknown. */
static struct user *find(struct daemon_connection_rate *rate, uid_t uid, uint64_t now)
{
	struct user *user, *after, *found = NULL;

	vcuda_list_for_each_safe (user, after, &rate->users, struct user, entry) {
		refill(user, now);
		if (user->uid == uid)
			found = user;
		else if (user->tokens == FULL)
			user_free(user);
	}
	if (found)
		return found;
	user = malloc(sizeof(*user));
	if (!user)
		return NULL;
	*user = (struct user){.uid = uid, .tokens = FULL, .refilled = now};
	vcuda_list_add(&user->entry, &rate->users);
	return user;
}

uint64_t daemon_connection_rate_take(struct daemon_connection_rate *rate, uid_t uid, uint64_t now)
{
	struct user *user = find(rate, uid, now);

	if (user && user->tokens < TOKEN)
		return (TOKEN - user->tokens + DAEMON_CONNECTIONS_PER_S - 1) / DAEMON_CONNECTIONS_PER_S;
	if (user)
		user->tokens -= TOKEN;
	return 0;
}
