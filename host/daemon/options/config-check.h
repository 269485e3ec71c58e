/* SPDX-License-Identifier: Apache-2.0 */
/* The check of vcudad's configuration files. */
#ifndef VCUDA_CONFIG_CHECK_H
#define VCUDA_CONFIG_CHECK_H

/*
 * `vcudad --check-config`: reads configuration files, and for a folder all of its files that end in ".conf"; without
 * paths those of the folder of the units. Prints the mistakes of each file and contradictions between them, and returns
 * their number. Warnings about things that this machine lacks now do not count.
 */
unsigned int daemon_config_check(char **paths);

#endif
