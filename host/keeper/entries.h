/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a keeper (common/share-keeper.h): who offers them, and what holds them. */
#ifndef VCUDA_KEEPER_ENTRIES_H
#define VCUDA_KEEPER_ENTRIES_H

#include "common/list.h"
#include "common/share-keeper.h"
#include "memory.h"

/* A worker, as long as it is connected. */
struct keeper_owner {
	struct vcuda_list entries;
	struct keeper_shared shared;
};

struct keeper_entry;

/* Sets the most entries, and the most descriptors that hold entries. Existing ones stay. */
void keeper_set_limit(uint32_t limit);

/* False: the keeper has no entries. */
bool keeper_has_entries(void);

/* The entry of a key; NULL: there is none. */
struct keeper_entry *keeper_find(const uint8_t *key);

/* Adds what a worker offers, and sets the message's key. 0: the descriptor is taken over; -EDQUOT or another -errno. */
int keeper_offer(struct keeper_owner *owner, struct vcuda_keeper_message *m, int fd);

/* -ENOENT: this owner has no such entry. */
int keeper_withdraw(struct keeper_owner *owner, const uint8_t *key);
int keeper_resize(const struct keeper_owner *owner, const uint8_t *key, uint64_t bytes);

/* The same of the entry that came with the offer of that number. */
int keeper_cancel(struct keeper_owner *owner, uint64_t number);

/*
 * Sets kind, part, note and has_fd for a worker, and *fd, which stays the entry's, or -1: there is none. 0, or -ENOMEM.
 */
int keeper_describe(const struct keeper_entry *e, struct keeper_owner *owner, struct vcuda_keeper_message *m, int *fd);

/* Sets the guest's handle of the entry. */
void keeper_name(const struct keeper_entry *e, struct vcuda_share_handle *handle);

/* One descriptor more holds the entry: -EDQUOT where there are too many. */
int keeper_hold(struct keeper_entry *e);

/* One less; the entry may be gone then. Also for an entry that keeper_end_orphans() has ended. */
void keeper_release(struct keeper_entry *e);

/* The same for a file of the VM's. -ENOENT: there is none. */
int keeper_hold_file(struct keeper_entry *e);
int keeper_release_file(struct keeper_entry *e);

/* The worker has ended: its entries have no owner any more. */
void keeper_orphan(struct keeper_owner *owner);

/* Ends the entries that no worker has any more. Descriptors of them hold nothing from now on. */
void keeper_end_orphans(void);

#endif
