// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much each user of the guest has pinned, over all of the user's contexts, and how many files of exported memory
 * there are that the user has made.
 *
 * CUDA programs expect to pin more than the usual RLIMIT_MEMLOCK, so the module's limit applies, or the rlimit where
 * that is higher.
 */
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "virtio-cuda.h"

struct vcuda_user {
	struct list_head entry;
	unsigned int references;
	kuid_t uid;
	atomic_long_t pages;
	atomic_t exports;
};

static DEFINE_MUTEX(vcuda_users_lock);
static LIST_HEAD(vcuda_users);

static unsigned int max_pinned_mib;
module_param(max_pinned_mib, uint, 0644);
MODULE_PARM_DESC(max_pinned_mib, "Memory that one user may pin, in MiB (0: half of the guest's memory)");

static unsigned int max_exports = 8192;
module_param(max_exports, uint, 0644);
MODULE_PARM_DESC(max_exports, "Files of exported memory that one user may have");

struct vcuda_user *vcuda_user_get(kuid_t uid)
{
	struct vcuda_user *user;

	mutex_lock(&vcuda_users_lock);
	list_for_each_entry(user, &vcuda_users, entry)
		if (uid_eq(user->uid, uid))
			goto found;
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (!user)
		goto unlock;
	user->uid = uid;
	list_add(&user->entry, &vcuda_users);
found:
	user->references++;
unlock:
	mutex_unlock(&vcuda_users_lock);
	return user;
}

void vcuda_user_put(struct vcuda_user *user)
{
	mutex_lock(&vcuda_users_lock);
	if (!--user->references) {
		WARN_ON_ONCE(atomic_long_read(&user->pages) || atomic_read(&user->exports));
		list_del(&user->entry);
		kfree(user);
	}
	mutex_unlock(&vcuda_users_lock);
}

int vcuda_user_charge(struct vcuda_user *user, unsigned long pages)
{
	unsigned int mib = READ_ONCE(max_pinned_mib);
	unsigned long limit = mib ? (unsigned long)mib << (20 - PAGE_SHIFT) : totalram_pages() / 2;

	limit = max(limit, rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT);
	if (pages <= limit && atomic_long_add_return(pages, &user->pages) <= limit)
		return 0;
	if (pages <= limit)
		atomic_long_sub(pages, &user->pages);
	return -EPERM;
}

void vcuda_user_uncharge(struct vcuda_user *user, unsigned long pages)
{
	atomic_long_sub(pages, &user->pages);
}

struct vcuda_user *vcuda_user_get_export(void)
{
	struct vcuda_user *user = vcuda_user_get(current_uid());

	if (!user)
		return ERR_PTR(-ENOMEM);
	if (atomic_inc_return(&user->exports) <= READ_ONCE(max_exports))
		return user;
	vcuda_user_put_export(user);
	return ERR_PTR(-EDQUOT);
}

void vcuda_user_put_export(struct vcuda_user *user)
{
	atomic_dec(&user->exports);
	vcuda_user_put(user);
}
