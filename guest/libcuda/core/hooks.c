/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "core/capture.h"

_Atomic(const struct vcuda_capture_ops *) vcuda_capture_hook;
