/* SPDX-License-Identifier: Apache-2.0 */
/* The user of workers by its text form (--worker-user). */
#ifndef VCUDA_WORKER_USER_H
#define VCUDA_WORKER_USER_H

#include "options/options.h"

/*
 * Parses the name of a user, UID or UID:GID. Without GID: the user's group, else the one with the user's number. False:
 * the text is none of these.
 */
bool daemon_worker_user_parse(const char *text, struct daemon_worker_user *user);

#endif
