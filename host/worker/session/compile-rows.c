/* SPDX-License-Identifier: Apache-2.0 */
#include "session/compile-rows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/compile-rows.h"
#include "protocol/handlers.h"
#include "session/ledger.h"

/* The last row is of all kernels that have no row. */
#define MOST_ROWS 4096
#define OTHERS "(other kernels)"

#define NAME_BYTES (VCUDA_COMPILE_NAME_WORDS * sizeof(uint64_t))

struct row {
	uint64_t words[VCUDA_COMPILE_WORDS];
};

static struct {
	pthread_mutex_t lock;
	struct row *rows;
	unsigned int count, room;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool grow(void)
{
	unsigned int room = table.room ? 2 * table.room : 16;
	struct row *rows;

	if (!worker_ledger_host_room((room - table.room) * sizeof(*rows)))
		return false;
	rows = realloc(table.rows, room * sizeof(*rows));
	if (!rows)
		return false;
	table.rows = rows;
	table.room = room;
	return true;
}

/* With the lock. NULL: there is no memory. */
static struct row *find(const char *kernel)
{
	char name[NAME_BYTES] = "";

	strncpy(name, table.count < MOST_ROWS - 1 ? kernel : OTHERS, sizeof(name) - 1);
	for (unsigned int n = 0; n < table.count; n++)
		if (!memcmp(&table.rows[n].words[VCUDA_COMPILE_NAME], name, sizeof(name)))
			return &table.rows[n];
	if (table.count == table.room && !grow())
		return NULL;
	table.rows[table.count] = (struct row){0};
	memcpy(&table.rows[table.count].words[VCUDA_COMPILE_NAME], name, sizeof(name));
	return &table.rows[table.count++];
}

static void add(uint64_t *words, const struct vcuda_compiled *c)
{
	words[VCUDA_COMPILE_COMPILED] += !c->loaded;
	words[VCUDA_COMPILE_OPTIMISED] += !c->loaded && !c->quick;
	words[VCUDA_COMPILE_LOADED] += c->loaded;
	words[VCUDA_COMPILE_INSTRUCTIONS] = c->instructions;
	words[VCUDA_COMPILE_BYTES] += c->bytes;
	words[VCUDA_COMPILE_WALL] += c->wall_ns;
	words[VCUDA_COMPILE_BACKGROUND] += c->background ? c->wall_ns : 0;
	words[VCUDA_COMPILE_CPU] += c->cpu_ns;
	words[VCUDA_COMPILE_PARSE] += c->parse_ns;
	words[VCUDA_COMPILE_ANALYSIS] += c->analysis_ns;
	words[VCUDA_COMPILE_LOWERING] += c->lowering_ns;
	words[VCUDA_COMPILE_PASSES] += c->passes_ns;
	words[VCUDA_COMPILE_EMISSION] += c->emission_ns;
	words[VCUDA_COMPILE_LINK] += c->link_ns;
}

void worker_compile_rows_add(struct worker_session *s, const struct vcuda_compiled *c)
{
	const struct vcuda_shm *shm = s->shm;
	struct row *row;

	if (!atomic_load_explicit(&shm->profile, memory_order_relaxed))
		return;
	pthread_mutex_lock(&table.lock);
	row = find(c->kernel);
	if (row)
		add(row->words, c);
	pthread_mutex_unlock(&table.lock);
}

CUresult vcuda_handle_vcudaCompileRows(struct worker_session *s, struct vcuda_args_vcudaCompileRows *a)
{
	(void)s;
	a->used = 0;
	pthread_mutex_lock(&table.lock);
	for (unsigned int n = a->first; n < table.count && a->words - a->used >= VCUDA_COMPILE_WORDS; n++) {
		memcpy(a->rows + a->used, table.rows[n].words, sizeof(table.rows[n].words));
		a->used += VCUDA_COMPILE_WORDS;
	}
	pthread_mutex_unlock(&table.lock);
	return CUDA_SUCCESS;
}
