/* SPDX-License-Identifier: Apache-2.0 */
/* A chained hash table that grows: large programs register some hundred thousand kernels. */
#include <pthread.h>
#include <stdlib.h>

#include "symbol-table.h"

#define FIRST_BITS 8

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct symbol **buckets;
static unsigned int bits;
static size_t count;

static size_t slot(const void *host, unsigned int of_bits)
{
	return (size_t)(((uint64_t)(uintptr_t)host * 0x9e3779b97f4a7c15u) >> (64 - of_bits));
}

static bool grow(void)
{
	unsigned int new_bits = bits ? bits + 1 : FIRST_BITS;
	struct symbol **new_buckets = calloc((size_t)1 << new_bits, sizeof(*new_buckets));

	if (!new_buckets)
		return false;
	for (size_t i = 0; bits && i < (size_t)1 << bits; i++) {
		struct symbol *symbol = buckets[i];

		while (symbol) {
			struct symbol *next = symbol->next;
			struct symbol **head = &new_buckets[slot(symbol->host, new_bits)];

			symbol->next = *head;
			*head = symbol;
			symbol = next;
		}
	}
	free(buckets);
	buckets = new_buckets;
	bits = new_bits;
	return true;
}

struct symbol *symbol_find(const void *host)
{
	struct symbol *symbol = NULL;

	pthread_rwlock_rdlock(&lock);
	if (bits)
		for (symbol = buckets[slot(host, bits)]; symbol && symbol->host != host;)
			symbol = symbol->next;
	pthread_rwlock_unlock(&lock);
	return symbol;
}

bool symbol_insert(struct symbol *symbol)
{
	bool done = true;

	pthread_rwlock_wrlock(&lock);
	if (!bits || count >> bits)
		done = grow() || bits;
	if (done) {
		/* At the head: it hides an older one until it is removed. */
		struct symbol **head = &buckets[slot(symbol->host, bits)];

		symbol->next = *head;
		*head = symbol;
		count++;
	}
	pthread_rwlock_unlock(&lock);
	return done;
}

void symbol_remove(struct symbol *symbol)
{
	pthread_rwlock_wrlock(&lock);
	if (bits) {
		struct symbol **link = &buckets[slot(symbol->host, bits)];

		while (*link && *link != symbol)
			link = &(*link)->next;
		if (*link) {
			*link = symbol->next;
			count--;
		}
	}
	pthread_rwlock_unlock(&lock);
}
