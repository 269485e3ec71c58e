/* SPDX-License-Identifier: Apache-2.0 */
/* The permission to read figures of the whole GPU. */
#ifndef VCUDA_FIGURE_H
#define VCUDA_FIGURE_H

#include <stdbool.h>

/* worker_figures_allow(): the guest may read them (vcudad --nvml-host-figures). Called before there is a guest. */
void worker_figures_allow(void);
bool worker_figures_are_allowed(void);

#endif
