/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the driver that programs see. */
#ifndef VCUDA_CLIENT_DRIVER_VERSION_H
#define VCUDA_CLIENT_DRIVER_VERSION_H

/*
 * VCUDA_DRIVER_VERSION of the environment, or the lower of `ours`, the newest version whose functions are all there,
 * and `host`, the version of the host's driver (0: no host was asked). Versions are 13000 for 13.0. The variable is read
 * at the first call. The log has a line, once, if it is above that lower one, or is no version. Thread-safe.
 */
int client_driver_version(int ours, int host);

#endif
