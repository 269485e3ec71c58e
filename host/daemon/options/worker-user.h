/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_WORKER_USER_H
#define VCUDA_WORKER_USER_H

#include "options/options.h"

/* The name of a user, UID or UID:GID. Without GID: the user's group, else the one with the user's number. False: no. */
bool daemon_worker_user_parse(const char *text, struct daemon_worker_user *user);

#endif
