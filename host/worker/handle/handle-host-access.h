/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_HANDLE_HOST_ACCESS_H
#define VCUDA_HANDLE_HOST_ACCESS_H

#include <stdbool.h>

struct worker_session;

/* Whether the back end has what vcudaMemHostAccess needs. Any thread, once the session has its back end. */
bool worker_host_access_is_there(const struct worker_session *s);

#endif
