/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_FIGURE_H
#define VCUDA_FIGURE_H

#include <stdbool.h>

/* The guest may have figures of the whole GPU: vcudad --nvml-host-figures. Before there is a guest. */
void worker_figures_allow(void);
bool worker_figures_are_allowed(void);

#endif
