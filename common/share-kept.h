/* SPDX-License-Identifier: Apache-2.0 */
/* For share.c: the worker's side of the keeper. -ENOTCONN: there is no keeper. */
#ifndef VCUDA_SHARE_KEPT_H
#define VCUDA_SHARE_KEPT_H

#include "share-keeper.h"

/* As a vcuda_share_exchange. */
int vcuda_share_ask_keeper(struct vcuda_keeper_message *m, int fd, int *answer);

/* The worker withdraws its offer of the handle. */
void vcuda_share_let_go(const struct vcuda_share_handle *handle);

#endif
