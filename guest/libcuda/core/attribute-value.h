/* SPDX-License-Identifier: Apache-2.0 */
/* Values of attributes that programs ask for. */
#ifndef VCUDA_ATTRIBUTE_VALUE_H
#define VCUDA_ATTRIBUTE_VALUE_H

#include <string.h>

#include "protocol/cuda-abi.h"

/*
 * Clears the value and nothing behind it: programs of CUDA 11.0 to 11.7 know the first of these attributes, and their
 * union is only as large as its largest member then, the mapping.
 */
static inline void libcuda_attribute_clear(CUlaunchAttributeValue *value, CUlaunchAttributeID attribute)
{
	switch (attribute) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		memset(&value->accessPolicyWindow, 0, sizeof(value->accessPolicyWindow));
		break;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		value->cooperative = 0;
		break;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		memset(&value->syncPolicy, 0, sizeof(value->syncPolicy));
		break;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		value->priority = 0;
		break;
	default:
		memset(value, 0, sizeof(*value));
	}
}

#endif
