/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that numbers.py writes, in the order of the names. Strings are in place, so that the loader has no work. */
#ifndef VCUDA_CUPTI_NAMES_H
#define VCUDA_CUPTI_NAMES_H

#include <stdint.h>

struct cupti_name {
	char name[62];
	uint16_t number;
};

extern const uint32_t cupti_driver_limit, cupti_runtime_limit;
extern const struct cupti_name cupti_driver_names[], cupti_runtime_names[];
extern const unsigned int cupti_driver_count, cupti_runtime_count;

#endif
