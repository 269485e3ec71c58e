/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "protocol/ipc/ledger.h"

#define BUCKETS 4096u
#define BLOCK 512 /* of st_blocks */

struct keeper_memory {
	struct vcuda_list in_bucket, counted;
	struct vcuda_list uses; /* that count */
	unsigned int references;
	bool is_file;
	dev_t device;
	ino_t inode;
	uint32_t gpu;
	uint64_t least; /* the most that a use in the list was said to cost */
	uint64_t bytes; /* in the sum */
};

static struct vcuda_list buckets[BUCKETS];
static struct vcuda_list counted = VCUDA_LIST_INIT(counted);
static struct keeper_memory_sum sums[VCUDA_LEDGER_GPUS], reported[VCUDA_LEDGER_GPUS];

static struct vcuda_list *bucket_of(ino_t inode)
{
	struct vcuda_list *bucket = &buckets[inode % BUCKETS];

	if (!bucket->next)
		vcuda_list_init(bucket);
	return bucket;
}

static struct keeper_memory *find(const struct stat *file, uint32_t gpu)
{
	struct vcuda_list *bucket = bucket_of(file->st_ino);

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
	vcuda_list_init(&m->counted);
	vcuda_list_init(&m->uses);
	if (!file)
		return m;
	m->is_file = true;
	m->device = file->st_dev;
	m->inode = file->st_ino;
	vcuda_list_add(&m->in_bucket, bucket_of(m->inode));
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

	if (vcuda_list_empty(&m->uses)) {
		m->least = 0;
		vcuda_list_add(&m->counted, &counted);
	}
	if (vcuda_list_empty(&use->entry)) {
		vcuda_list_add(&use->entry, &m->uses);
		sums[m->gpu].uses++;
	}
	if (bytes > m->least)
		m->least = bytes;
	update(m);
}

void keeper_memory_close(struct keeper_use *use)
{
	struct keeper_memory *m = use->memory;

	if (!vcuda_list_empty(&use->entry))
		sums[m->gpu].uses--;
	vcuda_list_remove(&use->entry);
	update(m);
	if (vcuda_list_empty(&m->uses))
		vcuda_list_remove(&m->counted);
	if (--m->references)
		return;
	vcuda_list_remove(&m->in_bucket);
	free(m);
}

void keeper_memory_measure(void)
{
	vcuda_list_for_each (node, &counted)
		update(container_of(node, struct keeper_memory, counted));
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
