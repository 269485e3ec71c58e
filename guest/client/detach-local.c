/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up the session of a local process, and taking it again (protocol/ipc/process.h). Nothing here allocates memory
 * or writes to a stream while the process is checkpointed: another thread may be stopped inside the C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "free-memory.h"
#include "lock-within.h"
#include "map-scan.h"
#include "mappings-local.h"
#include "protocol/control.h"
#include "ring/ring.h"
#include "shared-pages.h"
#include "transport-local.h"

/* The worker hears from vcudad that it shall outlive its channel. */
#define CONFIRM_MS 5000

/* vcudad closes a dialog in which nothing is said for --client-timeout, a second at least. */
#define SAY_MS 250

/* vcudad may take another step of the worker meanwhile. */
#define TOKEN_MS 2000

static struct client_local *of(struct client_transport *t)
{
	return (struct client_local *)t;
}

/* Without the variable there is no restore thread, and there are no copies, which other threads might notice. */
bool client_local_detaches(void)
{
	const char *how = getenv("VCUDA_CHECKPOINT");

	return how && !strcmp(how, "detach");
}

static void nap(unsigned int ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* ---- mappings ---- */

/* The arguments of a walk through the mappings, since twalk() passes none. The restore thread's. */
static struct {
	struct client_local *t;
	int err;
	bool scans;       /* the scan has begun */
	uint64_t missing; /* bytes of the worker's files that have no page yet, and get one when they are copied */
	struct client_map_scan scan;
} walk;

static bool is_visit(VISIT which)
{
	return (which == postorder || which == leaf) && !walk.err;
}

/* Only the worker's channel says that the session is lost, or that the worker has given a mapping up. */
static int own_error(int err)
{
	switch (err) {
	case -EBADF:
	case -ECONNRESET:
	case -ENODEV:
	case -ENOENT:
	case -EPIPE:
		return -EIO;
	default:
		return err;
	}
}

/* The guard keeps the descriptor of the scan from getting the number 0, 1 or 2. */
static int begin_scan(void)
{
	int guarded = vcuda_own_descriptor_guard(), err = client_map_scan_begin(&walk.scan);

	vcuda_own_descriptor_unguard(guarded);
	return own_error(err);
}

/* The scan begins on first use: a process that has no descriptor left may need no scan. */
static bool covers(const struct client_local_mapping *m, size_t bytes, const struct client_file_id *file,
		   uint64_t offset)
{
	if (!walk.scans)
		walk.scan.err = begin_scan();
	walk.scans = true;
	return !walk.scan.err && client_map_scan_covers(&walk.scan, (void *)m->address, bytes, file, offset);
}

/* By increasing addresses. */
static int walk_mappings(struct client_local *t, void (*visit)(const void *node, VISIT which, int depth))
{
	walk.t = t;
	walk.err = 0;
	walk.scans = false;
	twalk(t->mappings, visit);
	if (walk.scans)
		client_map_scan_end(&walk.scan);
	client_shared_pages_end();
	return walk.err;
}

/* ---- memory of the process's own ---- */

/* Whether the memory is still the one that the worker shares. The application may have mapped other memory there. */
static bool is_as_shared(const struct client_local_mapping *m)
{
	return covers(m, m->bytes, &m->file, 0);
}

/* Finds the reason why is_as_shared() failed. */
static int not_found(void)
{
	return walk.scan.err ? own_error(walk.scan.err) : -EOPNOTSUPP;
}

static void look_at(const void *node, VISIT which, int depth)
{
	const struct client_local_mapping *m = *(struct client_local_mapping *const *)node;

	(void)depth;
	if (!is_visit(which))
		return;
	walk.err = is_as_shared(m) ? 0 : not_found();
	walk.t->own_bytes += m->bytes;
	walk.missing += client_missing_memory((void *)m->address, m->bytes);
}

static struct client_file_id id_of(const struct vcuda_own_descriptor *file)
{
	return (struct client_file_id){file->device, file->inode};
}

/* The application may close all descriptors meanwhile, or put a file of its own in the place of this one. */
static int replace_part(void *address, size_t bytes, const struct vcuda_own_descriptor *file, uint64_t offset,
			bool forks)
{
	if (!vcuda_own_descriptor_is_there(file))
		return -EIO;
	return own_error(client_shared_pages_replace(address, bytes, file->fd, offset, forks));
}

/* As before, a forked child has the memory that the application has registered. */
static int replace(const struct client_local_mapping *m, size_t from, size_t bytes,
		   const struct vcuda_own_descriptor *file, uint64_t offset)
{
	return replace_part((char *)m->address + from, bytes, file, offset, m->pages == CLIENT_MAPPING_RESTORE_PAGES);
}

static void make_own(const void *node, VISIT which, int depth)
{
	struct client_local_mapping *m = *(struct client_local_mapping *const *)node;
	struct client_local *t = walk.t;

	(void)depth;
	if (!is_visit(which))
		return;
	if (!is_as_shared(m))
		walk.err = not_found();
	m->offset = t->own_bytes;
	t->own_bytes += m->bytes;
	for (size_t part; !walk.err && m->own < m->bytes; m->own += walk.err ? 0 : part) {
		part = m->bytes - m->own < CLIENT_SHARED_PART ? m->bytes - m->own : CLIENT_SHARED_PART;
		walk.err = replace(m, m->own, part, &t->file, m->offset + m->own);
	}
}

/* Checks the limit of file sizes first: the kernel would send SIGXFSZ. */
static bool is_too_large(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || bytes > limit.rlim_cur;
}

/* Bytes that are left to other processes. The memory of the GPU may have just moved to the host. */
#define RESERVE (64u << 20)

/* Files have pages beyond what the machine has, for which the kernel ends processes. */
static bool is_there_room(uint64_t bytes)
{
	int guarded = vcuda_own_descriptor_guard();
	uint64_t free = client_free_memory("");

	vcuda_own_descriptor_unguard(guarded);
	return free >= RESERVE && bytes <= free - RESERVE;
}

/* No thread writes to the shared area meanwhile. */
static int make_area_own(struct client_local *t)
{
	int err;

	for (uint64_t done = 0; done < VCUDA_SHM_BYTES; done += CLIENT_SHARED_PART) {
		size_t left = VCUDA_SHM_BYTES - done, part = left < CLIENT_SHARED_PART ? left : CLIENT_SHARED_PART;

		/* Set from the first part on, so that a failure exchanges the part back. */
		t->area_is_own = true;
		err = replace_part((char *)t->base.shm + done, part, &t->file, done, false);
		if (err)
			return err;
	}
	t->own_bytes = VCUDA_SHM_BYTES;
	return 0;
}

/* Checks all mappings first, so that nothing is exchanged if one does not fit. */
static int check_all(struct client_local *t)
{
	int err;

	t->own_bytes = VCUDA_SHM_BYTES;
	walk.missing = client_missing_memory(t->base.shm, VCUDA_SHM_BYTES);
	err = walk_mappings(t, look_at);
	if (err)
		return err;
	if (is_too_large(t->own_bytes))
		return -EFBIG;
	return is_there_room(t->own_bytes + walk.missing) ? 0 : -ENOMEM;
}

static int make_file(struct client_local *t)
{
	int guarded = vcuda_own_descriptor_guard(), fd = memfd_create("checkpointed", MFD_CLOEXEC), err = -errno;

	if (fd >= 0)
		err = vcuda_own_descriptor_take(&t->file, fd);
	vcuda_own_descriptor_unguard(guarded);
	return err;
}

static int own_all(struct client_local *t)
{
	int err = make_file(t);

	if (err)
		return err;
	t->own = id_of(&t->file);
	err = make_area_own(t);
	if (!err)
		err = walk_mappings(t, make_own);
	client_shared_pages_end();
	/* A child that is forked meanwhile has it open, or not. */
	vcuda_own_descriptor_close(&t->file);
	return err;
}

/* ---- memory that the worker shares ---- */

/* From now on the worker does not share the memory with this process. */
static void leave(struct client_local_mapping *m)
{
	vcuda_log("memory at %#zx is not the GPU's any more: the program has put other memory there, while the process "
		  "was checkpointed or before",
		  (size_t)m->address);
	m->own = 0;
	walk.t->unfit += !m->is_unfit;
	m->is_unfit = true;
}

/* Sets t->file to the worker's file of the mapping. */
static int request_file(struct client_local *t, const struct client_local_mapping *m)
{
	struct vcuda_channel_message request = {
		.type = VCUDA_CHANNEL_MAPPING_SHARE, .address = m->address, .length = m->bytes};
	int guarded = vcuda_own_descriptor_guard(), fd, err = client_local_exchange(t, &request, -1, &fd, 1);

	if (!err)
		err = vcuda_own_descriptor_take(&t->file, fd);
	vcuda_own_descriptor_unguard(guarded);
	return err;
}

static int share(struct client_local_mapping *m)
{
	struct client_local *t = walk.t;
	int err = request_file(t, m);

	if (err)
		return err;
	m->file = id_of(&t->file);
	while (!err && m->own) {
		size_t from = (m->own - 1) / CLIENT_SHARED_PART * CLIENT_SHARED_PART;

		err = replace(m, from, m->own - from, &t->file, from);
		m->own = err ? m->own : from;
	}
	vcuda_own_descriptor_close(&t->file);
	return err;
}

static void share_again(const void *node, VISIT which, int depth)
{
	struct client_local_mapping *m = *(struct client_local_mapping *const *)node;

	(void)depth;
	if (!is_visit(which) || !m->own)
		return;
	if (covers(m, m->own, &walk.t->own, m->offset))
		walk.err = share(m);
	else if (walk.scan.err)
		walk.err = own_error(walk.scan.err);
	else
		leave(m);
	/* The worker has given its memory up. */
	if (walk.err == -ENOENT) {
		leave(m);
		walk.err = 0;
	}
}

/* A process that was made of an image has other files, and its memory is of them as that of the first one was. */
static int look_for_own_file(struct client_local *t)
{
	int err = begin_scan();

	if (err)
		return err;
	t->own = client_map_scan_file(&walk.scan, t->base.shm);
	client_map_scan_end(&walk.scan);
	return own_error(walk.scan.err);
}

static int map_area(struct client_local *t, const int fds[2])
{
	int err = 0;

	if (t->doorbell.fd < 0)
		err = vcuda_own_descriptor_take(&t->doorbell, fds[1]);
	else
		close(fds[1]);
	if (!err &&
	    mmap(t->base.shm, VCUDA_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds[0], 0) == MAP_FAILED)
		err = own_error(-errno);
	if (!err)
		madvise(t->base.shm, VCUDA_SHM_BYTES, MADV_DONTFORK);
	close(fds[0]);
	return err;
}

/* The ring and the staging area: nothing was written there meanwhile. */
static int share_area(struct client_local *t)
{
	struct vcuda_channel_message m = {.type = VCUDA_CHANNEL_RESUME, .pid = (uint32_t)getpid()};
	int fds[2], err;

	if (!t->area_is_own)
		return 0;
	err = look_for_own_file(t);
	if (!err)
		err = client_local_exchange(t, &m, -1, fds, 2);
	if (!err)
		err = map_area(t, fds);
	t->area_is_own = err;
	return err;
}

static int local_gather(struct client_transport *transport)
{
	struct client_local *t = of(transport);
	int err;

	/* The number of the reserve may be the only one that is left. */
	vcuda_own_descriptor_close(&t->reserve);
	err = share_area(t);
	if (!err)
		err = walk_mappings(t, share_again);
	if (!err)
		client_local_make_reserve(t);
	return err;
}

/* ---- other threads ---- */

static bool local_hold(struct client_transport *t, unsigned int ms)
{
	return client_lock_within(&of(t)->mappings_lock, ms);
}

static void local_let_go(struct client_transport *t)
{
	pthread_mutex_unlock(&of(t)->mappings_lock);
}

/* ---- both ways ---- */

/* 0: the worker outlives the channel. -EAGAIN: it can, and does not yet. */
static int ask_worker(struct client_local *t)
{
	struct vcuda_channel_message m = {.type = VCUDA_CHANNEL_DETACH};

	return client_local_exchange(t, &m, -1, NULL, 0);
}

/* The dialog lives on meanwhile: with its end the session is detached for vcudad. */
static int confirm(struct client_local *t)
{
	struct vcuda_restore_reply reply;
	int err;

	for (unsigned int i = 0; i < CONFIRM_MS; i++) {
		err = ask_worker(t);
		if (err != -EAGAIN)
			return err;
		if (i % SAY_MS == SAY_MS - 1)
			client_local_ask(t, VCUDA_RESTORE_LOOK, &reply);
		nap(1);
	}
	return -ETIMEDOUT;
}

/* -EAGAIN: the process is not checkpointed any more. */
static int ask_for_token(struct client_local *t, struct vcuda_restore_reply *reply)
{
	struct vcuda_restore_reply now;
	int err = client_local_ask(t, VCUDA_RESTORE_DETACH, reply);

	for (unsigned int i = 0; err == -EAGAIN && i < TOKEN_MS; i++) {
		if (client_local_ask(t, VCUDA_RESTORE_LOOK, &now) ||
		    (now.head.state & ~VCUDA_PROCESS_STEP) != VCUDA_PROCESS_CHECKPOINTED)
			return err;
		nap(1);
		err = client_local_ask(t, VCUDA_RESTORE_DETACH, reply);
	}
	return err;
}

static int ask_in_dialog(struct client_local *t, struct vcuda_restore_reply *reply)
{
	int err = client_local_open_dialog(t);

	return err ? err : ask_for_token(t, reply);
}

/* Tries again: the copies are made, and vcudad refuses frequent connections. A broken dialog may have had the token. */
static int take_token(struct client_local *t)
{
	struct vcuda_restore_reply reply;
	int err = ask_in_dialog(t, &reply);

	for (unsigned int i = 0; err == -EIO && i < TOKEN_MS / SAY_MS; i++) {
		nap(SAY_MS);
		err = ask_in_dialog(t, &reply);
		err = err == -EAGAIN ? -EIO : err;
	}
	if (err)
		return err;
	memcpy(t->token, reply.token, sizeof(t->token));
	return confirm(t);
}

static int detach(struct client_local *t)
{
	struct vcuda_restore_reply reply;
	int err = t->unfit ? -EOPNOTSUPP : ask_worker(t);

	/* 0: a token that was given back is not forgotten yet. */
	if (err != -EAGAIN)
		return err ? err : -EAGAIN;
	err = check_all(t);
	if (!err)
		err = client_local_ask(t, VCUDA_RESTORE_COPIES, &reply);
	if (err)
		return err;
	/* The copies may take longer than vcudad waits for a word. */
	client_local_end_dialog(t);
	err = own_all(t);
	/* The limit of locked memory gives it, too. */
	return err == -EAGAIN ? -ENOMEM : err ? err : take_token(t);
}

static int local_detach(struct client_transport *transport)
{
	struct client_local *t = of(transport);
	int err = detach(t);

	if (err)
		return err;
	vcuda_own_descriptor_close(&t->socket);
	vcuda_own_descriptor_close(&t->doorbell);
	vcuda_own_descriptor_close(&t->reserve);
	t->detached = true;
	return 0;
}

/* The worker's answers bring two descriptors at most. Without room for them the session stays with vcudad. */
static bool has_descriptors(const struct client_local *t)
{
	int one = fcntl(t->dialog.fd, F_DUPFD_CLOEXEC, 3), two = fcntl(t->dialog.fd, F_DUPFD_CLOEXEC, 3);

	if (one >= 0)
		close(one);
	if (two >= 0)
		close(two);
	return one >= 0 && two >= 0;
}

static int local_attach(struct client_transport *transport)
{
	struct client_local *t = of(transport);
	struct vcuda_restore_reply reply;
	int err = has_descriptors(t) ? client_local_ask(t, VCUDA_RESTORE_ATTACH, &reply) : -EMFILE;

	if (err)
		return err;
	/* The dialog's connection is the channel from now on. */
	t->socket = t->dialog;
	t->dialog.fd = -1;
	t->detached = false;
	memset(t->token, 0, sizeof(t->token));
	return 0;
}

static void local_drop(struct client_transport *transport)
{
	struct client_local *t = of(transport);

	vcuda_own_descriptor_close(&t->dialog);
	vcuda_own_descriptor_close(&t->socket);
	vcuda_own_descriptor_close(&t->doorbell);
	vcuda_own_descriptor_close(&t->reserve);
}

static void local_end(struct client_transport *t)
{
	client_local_end_dialog(of(t));
}

const struct client_detaching client_local_detaching = {
	.is_wanted = client_local_detaches,
	.look = client_local_look,
	.tell = client_local_tell,
	.hold = local_hold,
	.let_go = local_let_go,
	.detach = local_detach,
	.attach = local_attach,
	.gather = local_gather,
	.end = local_end,
	.drop = local_drop,
};
