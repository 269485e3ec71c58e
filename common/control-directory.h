/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where vcudad puts its control socket, and where `vcuda` looks for the control sockets of all of the user's daemons.
 * Thread-safe.
 */
#ifndef VCUDA_CONTROL_DIRECTORY_H
#define VCUDA_CONTROL_DIRECTORY_H

#include <stdbool.h>

#define VCUDA_CONTROL_DIRECTORIES 3
#define VCUDA_CONTROL_DIRECTORY_BYTES 96

/*
 * The directories in the order in which vcudad tries them. VCUDA_CONTROL names the only one. Else: vcuda/control in
 * $XDG_RUNTIME_DIR, /run/vcuda/control for root, /tmp/vcuda-UID/control. Returns how many there are. Directories whose
 * path is too long for a socket's name are left out.
 */
unsigned int vcuda_control_directories(char paths[VCUDA_CONTROL_DIRECTORIES][VCUDA_CONTROL_DIRECTORY_BYTES]);

/* Whether the directory, and the one above it, belong to this process's user, and no other user may write to them. */
bool vcuda_control_directory_is_ours(const char *path);

/* Makes the directory, and the one above it, where they do not exist. False: vcudad may not use the directory. */
bool vcuda_control_directory_make(const char *path);

#endif
