/* SPDX-License-Identifier: Apache-2.0 */
#include "session/figure.h"

static bool allowed;

void worker_figures_allow(void)
{
	allowed = true;
}

bool worker_figures_are_allowed(void)
{
	return allowed;
}
