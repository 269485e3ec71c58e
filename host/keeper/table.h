/* SPDX-License-Identifier: Apache-2.0 */
/* Tables by number, whose buckets are lists. A table of zeroes is empty. */
#ifndef VCUDA_KEEPER_TABLE_H
#define VCUDA_KEEPER_TABLE_H

#include <stdint.h>

#include "common/list.h"

#define KEEPER_BUCKETS 4096u

struct keeper_table {
	struct vcuda_list buckets[KEEPER_BUCKETS];
};

/* The list of all objects of this number, and perhaps of others. */
static inline struct vcuda_list *keeper_table_bucket(struct keeper_table *table, uint64_t number)
{
	struct vcuda_list *bucket = &table->buckets[number % KEEPER_BUCKETS];

	if (!bucket->next)
		vcuda_list_init(bucket);
	return bucket;
}

#endif
