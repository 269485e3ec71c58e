/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of what the ledger has granted. */
#include "limits/ledger.h"

uint64_t daemon_ledger_sum(void)
{
	uint64_t sum = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		sum += daemon_ledger_granted(gpu);
	return sum;
}

uint64_t daemon_ledger_most_granted(void)
{
	uint64_t most = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		if (daemon_ledger_granted(gpu) > most)
			most = daemon_ledger_granted(gpu);
	return most;
}

static uint64_t count_of(const struct daemon_ledger_row *row, unsigned int gpu)
{
	return row->granted[gpu] + row->surplus[gpu];
}

uint64_t daemon_ledger_row_most_granted(const struct daemon_ledger_row *row)
{
	uint64_t most = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		if (count_of(row, gpu) > most)
			most = count_of(row, gpu);
	return most;
}

uint64_t daemon_ledger_row_granted(const struct daemon_ledger_row *row)
{
	uint64_t sum = 0;

	for (unsigned int gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		sum += count_of(row, gpu);
	return sum;
}

static void subtract(struct daemon_ledger_row *row, void *sum)
{
	*(uint64_t *)sum -= daemon_ledger_row_granted(row);
}

uint64_t daemon_ledger_kept(void)
{
	uint64_t sum = daemon_ledger_sum();

	daemon_ledger_each(subtract, &sum);
	return sum;
}
