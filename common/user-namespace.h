/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user namespace for a process that is not root: the view of the daemon's workers and of `vcuda vm run` are made in
 * one.
 */
#ifndef VCUDA_USER_NAMESPACE_H
#define VCUDA_USER_NAMESPACE_H

#include <sys/types.h>

enum vcuda_user_namespace { VCUDA_USER_NAMESPACE_ENTERED, VCUDA_USER_NAMESPACE_REFUSED, VCUDA_USER_NAMESPACE_NO_MAP };

/*
 * Moves this process, which has one thread, into a user namespace, and into new namespaces of the kinds `others`
 * (CLONE_NEW*). The namespace has one user and one group: the caller's, as `uid` and `gid`. After an error errno says
 * why: the kernel makes no such namespace, or does not take the map; then the process is in the namespace without one.
 */
enum vcuda_user_namespace vcuda_user_namespace_enter(int others, uid_t uid, gid_t gid);

#endif
