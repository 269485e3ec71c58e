/* SPDX-License-Identifier: Apache-2.0 */
#include "registration.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lock-within.h"
#include "private-memory.h"
#include "section.h"

#define PAGE 4096ull

/* A page of which registrations have parts. */
struct edge {
	uint64_t page;
	unsigned int users;
	bool writable;
	enum client_mapping_release pages;
	bool is_stack; /* of the thread below */
	pthread_t thread;
	struct client_private_page private; /* while the process forks */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *edges; /* a tree of tsearch() */
static bool watches_forks;

static int compare(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return x->page < y->page ? -1 : x->page > y->page;
}

static struct edge *find(uint64_t page)
{
	struct edge key = {.page = page}, **found = tfind(&key, &edges, compare);

	return found ? *found : NULL;
}

/* ---- forks ---- */

/*
 * Shared pages that replace private ones are private while the process forks. Otherwise parent and child would share
 * them, with all other data on these pages.
 */
static void make_private(const void *node, VISIT which, int depth)
{
	struct edge *e = *(struct edge *const *)node;

	(void)depth;
	if ((which != postorder && which != leaf) || e->pages != CLIENT_MAPPING_RESTORE_PAGES)
		return;
	/* The stack of another thread is in use here, and is not a stack in the child. */
	if (!e->is_stack || pthread_equal(e->thread, pthread_self()))
		client_private_page_begin(&e->private, (void *)e->page);
}

static void share_again(const void *node, VISIT which, int depth)
{
	struct edge *e = *(struct edge *const *)node;

	(void)depth;
	if (which == postorder || which == leaf)
		client_private_page_end(&e->private, (void *)e->page);
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
	twalk(edges, make_private);
}

static void after_fork_in_parent(void)
{
	twalk(edges, share_again);
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	/* The child has no registrations, and its pages are its own. */
	edges = NULL;
}

/* ---- pages that are shared ---- */

static int new_edge(struct client_transport *t, uint64_t page, bool writable)
{
	struct edge *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->page = page;
	e->users = 1;
	e->is_stack = client_private_memory_is_own_stack((void *)page);
	e->thread = pthread_self();
	e->writable = writable;
	err = t->ops->mapping_register(t, (void *)page, PAGE, writable, &e->pages);
	if (!err && !tsearch(e, &edges, compare)) {
		t->ops->mapping_release(t, (void *)page, PAGE, e->pages);
		err = -ENOMEM;
	}
	if (err)
		free(e);
	return err;
}

static int take_edge_locked(struct client_transport *t, uint64_t page, bool writable)
{
	struct edge *e = find(page);

	if (!watches_forks)
		watches_forks = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
	if (!e)
		return new_edge(t, page, writable);
	if (writable != e->writable)
		return -EFAULT;
	e->users++;
	return 0;
}

static int take_edge(struct client_transport *t, uint64_t page, bool writable)
{
	int err;

	/* While the process is locked no thread has the lock for long. */
	client_section_enter();
	pthread_mutex_lock(&lock);
	err = take_edge_locked(t, page, writable);
	pthread_mutex_unlock(&lock);
	client_section_leave();
	return err;
}

static int give_edge_locked(struct client_transport *t, uint64_t page)
{
	struct edge *e = find(page);
	int err;

	if (!e || --e->users)
		return 0;
	err = t->ops->mapping_release(t, (void *)page, PAGE, e->pages);
	tdelete(e, &edges, compare);
	free(e);
	return err;
}

static int give_edge(struct client_transport *t, uint64_t page)
{
	int err;

	client_section_enter();
	pthread_mutex_lock(&lock);
	err = give_edge_locked(t, page);
	pthread_mutex_unlock(&lock);
	client_section_leave();
	return err;
}

/* ---- registrations ---- */

/* The parts of a registration. */
struct parts {
	uint64_t edges[2];
	unsigned int edge_count;
	uint64_t middle, middle_bytes; /* whole pages; 0 bytes: none */
};

static struct parts split(const struct client_registration *r)
{
	uint64_t end = r->start + r->bytes, first = r->start & ~(PAGE - 1), last = end & ~(PAGE - 1);
	struct parts p = {.middle = first};

	if (r->start != first) {
		p.edges[p.edge_count++] = first;
		p.middle += PAGE;
	}
	if (end != last && (!p.edge_count || last != first))
		p.edges[p.edge_count++] = last;
	if (p.middle < last)
		p.middle_bytes = last - p.middle;
	return p;
}

static int unmap_parts(struct client_transport *t, const struct client_registration *r, const struct parts *p)
{
	int result = 0;

	if (p->middle_bytes)
		result = t->ops->mapping_release(t, (void *)p->middle, p->middle_bytes, r->pages);
	for (unsigned int i = 0; i < p->edge_count; i++) {
		int err = give_edge(t, p->edges[i]);

		result = result ? result : err;
	}
	return result;
}

int client_registration_map(struct client_transport *t, struct client_registration *r, bool writable)
{
	struct parts whole = split(r), done = {.middle = whole.middle};
	int err = 0;

	r->pages = CLIENT_MAPPING_KEEP_PAGES;
	if (whole.middle_bytes)
		err = t->ops->mapping_register(t, (void *)whole.middle, whole.middle_bytes, writable, &r->pages);
	if (!err)
		done.middle_bytes = whole.middle_bytes;
	while (!err && done.edge_count < whole.edge_count) {
		err = take_edge(t, whole.edges[done.edge_count], writable);
		if (!err) {
			done.edges[done.edge_count] = whole.edges[done.edge_count];
			done.edge_count++;
		}
	}
	if (err)
		unmap_parts(t, r, &done);
	return err;
}

int client_registration_unmap(struct client_transport *t, const struct client_registration *r)
{
	struct parts p = split(r);

	return unmap_parts(t, r, &p);
}

bool client_registration_hold(unsigned int ms)
{
	return client_lock_within(&lock, ms);
}

void client_registration_let_go(void)
{
	pthread_mutex_unlock(&lock);
}
