/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "protocol/ipc/ledger.h"
#include "table.h"

#define BLOCK 512 /* unit of st_blocks, bytes */

struct keeper_memory {
	struct vcuda_list in_bucket;
	struct vcuda_list uses;    /* the uses that count */
	struct vcuda_list sharers; /* struct sharer */
	unsigned int references;
	bool is_file;
	dev_t device;
	ino_t inode;
	uint32_t gpu;
	uint64_t least; /* the largest announced cost of a use in the list */
	uint64_t bytes; /* in the sum */
};

/* A worker that may write to a file. */
struct sharer {
	struct vcuda_list of_worker, of_memory;
	const struct keeper_shared *worker;
	struct keeper_memory *memory;
};

static struct keeper_table files; /* by inode */
static struct keeper_memory_sum sums[VCUDA_LEDGER_GPUS], reported[VCUDA_LEDGER_GPUS];

static struct keeper_memory *find(const struct stat *file, uint32_t gpu)
{
	struct vcuda_list *bucket = keeper_table_bucket(&files, file->st_ino);

	vcuda_list_for_each (node, bucket) {
		struct keeper_memory *m = container_of(node, struct keeper_memory, in_bucket);

		if (m->inode == file->st_ino && m->device == file->st_dev && m->gpu == gpu)
			return m;
	}
	return NULL;
}

static struct keeper_memory *new_memory(const struct stat *file, uint32_t gpu)
{
	struct keeper_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->gpu = gpu;
	vcuda_list_init(&m->in_bucket);
	vcuda_list_init(&m->uses);
	vcuda_list_init(&m->sharers);
	if (!file)
		return m;
	m->is_file = true;
	m->device = file->st_dev;
	m->inode = file->st_ino;
	vcuda_list_add(&m->in_bucket, keeper_table_bucket(&files, m->inode));
	return m;
}

bool keeper_memory_open(struct keeper_use *use, int fd, uint32_t gpu)
{
	struct stat file;
	bool is_file = fd >= 0 && !fstat(fd, &file) && S_ISREG(file.st_mode);
	struct keeper_memory *m = is_file ? find(&file, gpu) : NULL;

	if (!m)
		m = new_memory(is_file ? &file : NULL, gpu);
	if (!m)
		return false;
	m->references++;
	*use = (struct keeper_use){.memory = m, .fd = fd};
	vcuda_list_init(&use->entry);
	return true;
}

static uint64_t measure(const struct keeper_memory *m)
{
	struct stat file;
	uint64_t bytes = 0;

	if (vcuda_list_empty(&m->uses))
		return 0;
	if (m->is_file && !fstat(vcuda_list_first(&m->uses, struct keeper_use, entry)->fd, &file))
		bytes = (uint64_t)file.st_blocks * BLOCK;
	return bytes > m->least ? bytes : m->least;
}

static void update(struct keeper_memory *m)
{
	uint64_t bytes = measure(m);

	sums[m->gpu].bytes += bytes - m->bytes;
	m->bytes = bytes;
}

void keeper_memory_count(struct keeper_use *use, uint64_t bytes)
{
	struct keeper_memory *m = use->memory;

	if (vcuda_list_empty(&m->uses))
		m->least = 0;
	if (vcuda_list_empty(&use->entry)) {
		vcuda_list_add(&use->entry, &m->uses);
		sums[m->gpu].uses++;
	}
	if (bytes > m->least)
		m->least = bytes;
	update(m);
}

static void forget(struct sharer *sharer)
{
	vcuda_list_remove(&sharer->of_worker);
	vcuda_list_remove(&sharer->of_memory);
	free(sharer);
}

void keeper_memory_close(struct keeper_use *use)
{
	struct keeper_memory *m = use->memory;

	if (!vcuda_list_empty(&use->entry))
		sums[m->gpu].uses--;
	vcuda_list_remove(&use->entry);
	update(m);
	if (--m->references)
		return;
	while (!vcuda_list_empty(&m->sharers))
		forget(vcuda_list_first(&m->sharers, struct sharer, of_memory));
	vcuda_list_remove(&m->in_bucket);
	free(m);
}

/* A file has few sharers, and a worker may share many files. */
static bool is_shared(const struct keeper_memory *m, const struct keeper_shared *worker)
{
	vcuda_list_for_each (node, &m->sharers)
		if (container_of(node, struct sharer, of_memory)->worker == worker)
			return true;
	return false;
}

bool keeper_memory_share(const struct keeper_use *use, struct keeper_shared *worker)
{
	struct sharer *sharer;

	if (!use->memory->is_file || is_shared(use->memory, worker))
		return true;
	sharer = calloc(1, sizeof(*sharer));
	if (!sharer)
		return false;
	sharer->worker = worker;
	sharer->memory = use->memory;
	vcuda_list_add(&sharer->of_worker, &worker->files);
	vcuda_list_add(&sharer->of_memory, &use->memory->sharers);
	return true;
}

void keeper_memory_end_sharing(struct keeper_shared *worker)
{
	while (!vcuda_list_empty(&worker->files)) {
		struct sharer *sharer = vcuda_list_first(&worker->files, struct sharer, of_worker);

		update(sharer->memory);
		forget(sharer);
	}
}

static bool is_same(const struct keeper_memory_sum *a, const struct keeper_memory_sum *b)
{
	return a->bytes == b->bytes && a->uses == b->uses;
}

void keeper_memory_report(void (*call)(uint64_t argument, uint32_t gpu, const struct keeper_memory_sum *sum),
			  uint64_t argument)
{
	for (uint32_t gpu = 0; gpu < VCUDA_LEDGER_GPUS; gpu++)
		if (!is_same(&sums[gpu], &reported[gpu])) {
			reported[gpu] = sums[gpu];
			call(argument, gpu, &sums[gpu]);
		}
}
