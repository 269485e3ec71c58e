/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CONFIG_CHECK_H
#define VCUDA_CONFIG_CHECK_H

/*
 * `vcudad --check-config`: reads configuration files, and all that end in ".conf" of folders among them; none: of the
 * folder of the units. Prints what is wrong with each, and what does not fit together, and returns the number of
 * mistakes. Warnings, of what this machine does not have now, do not count.
 */
unsigned int daemon_config_check(char **paths);

#endif
