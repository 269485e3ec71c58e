// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges: parts of the process's memory that are pinned. The worker mirrors a range, or notes it as direct: copied from
 * and to in place. The same rules hold for both.
 *
 * A range is in the context's tree from before its first page is pinned, so that no two overlap, until its last page
 * is released. The call that moved a range out of READY, or has not yet made it READY, owns the range. The lock guards
 * only the tree and the state. A range whose UNMAP was not confirmed stays in the tree until the context's DESTROY is
 * confirmed and no call works on the tree.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "virtio-cuda.h"

#define VCUDA_PIN_BATCH 256

enum vcuda_range_state {
	VCUDA_RANGE_BUSY,	/* being mapped or unmapped, or given up */
	VCUDA_RANGE_READY,
};

/* Physically contiguous pages. */
struct vcuda_run {
	struct page *first;
	unsigned long pages;
};

struct vcuda_range {
	struct rb_node node;
	u64 start, end;
	bool writable;
	bool direct;
	enum vcuda_range_state state;
	unsigned long pinned;		/* pages in the runs */
	unsigned long charged;
	struct vcuda_run *runs;
	size_t count, capacity;
};

static struct vcuda_range *vcuda_range_of(struct rb_node *node)
{
	return rb_entry(node, struct vcuda_range, node);
}

/* Context lock held. */
static int vcuda_range_insert(struct vcuda_context *context, struct vcuda_range *range)
{
	struct rb_node **link = &context->ranges.rb_node, *parent = NULL;

	while (*link) {
		struct vcuda_range *other = vcuda_range_of(*link);

		parent = *link;
		if (range->end <= other->start)
			link = &parent->rb_left;
		else if (range->start >= other->end)
			link = &parent->rb_right;
		else
			return -EEXIST;
	}
	rb_link_node(&range->node, parent, link);
	rb_insert_color(&range->node, &context->ranges);
	return 0;
}

/* Context lock held. */
static struct vcuda_range *vcuda_range_find(struct vcuda_context *context, u64 start)
{
	struct rb_node *node = context->ranges.rb_node;

	while (node) {
		struct vcuda_range *range = vcuda_range_of(node);

		if (start == range->start)
			return range;
		node = start < range->start ? node->rb_left : node->rb_right;
	}
	return NULL;
}

static int vcuda_range_grow(struct vcuda_range *range)
{
	size_t capacity = range->capacity ? range->capacity * 2 : 16;
	struct vcuda_run *runs = kvmalloc_array(capacity, sizeof(*runs), GFP_KERNEL_ACCOUNT);

	if (!runs)
		return -ENOMEM;
	if (range->count)
		memcpy(runs, range->runs, range->count * sizeof(*runs));
	kvfree(range->runs);
	range->runs = runs;
	range->capacity = capacity;
	return 0;
}

/* After so many pinned pages, and at its end, a direct range is checked for short runs. */
#define VCUDA_DIRECT_LOOK (2ul << (20 - PAGE_SHIFT))

/* A processor copies short runs faster. */
static int vcuda_range_worth(const struct vcuda_range *range)
{
	unsigned long pages = (range->end - range->start) >> PAGE_SHIFT;

	if (!range->direct || range->pinned < min(pages, VCUDA_DIRECT_LOOK))
		return 0;
	return range->pinned / range->count < VCUDA_DIRECT_PIECE >> PAGE_SHIFT ? -E2BIG : 0;
}

/*
 * Joins pages that are neighbours, except over a section's border: separately plugged memory is a region of its own
 * on the host even where its addresses adjoin.
 */
static int vcuda_range_append(struct vcuda_range *range, struct page *page)
{
	struct vcuda_run *last = range->count ? &range->runs[range->count - 1] : NULL;
	unsigned long pfn = page_to_pfn(page);
	int status;

	if (last && page_to_pfn(last->first) + last->pages == pfn && !vcuda_section_begins(pfn)) {
		last->pages++;
	} else {
		if (range->count == range->capacity) {
			status = vcuda_range_grow(range);
			if (status)
				return status;
		}
		range->runs[range->count++] = (struct vcuda_run){ .first = page, .pages = 1 };
	}
	range->pinned++;
	return 0;
}

/*
 * A long-term pin breaks copy-on-write: a process gets its own pages in place of those of a privately mapped file, or
 * of pages shared since a fork. All of a large file would become memory that cannot be reclaimed. A direct copy is
 * short, so it takes no long-term pin for reading; a process that writes meanwhile may get other pages.
 */
static int vcuda_pin_pages(const struct vcuda_range *range, u64 start, unsigned int count, struct page **pages)
{
	bool writable = range->writable;
	int got;

	if (range->direct && !writable)
		return pin_user_pages_fast(start, count, 0, pages);
	if (writable || VCUDA_PIN_READ_NEEDS_WRITE) {
		got = pin_user_pages_fast(start, count, FOLL_LONGTERM | FOLL_WRITE, pages);
		if (got > 0 || writable)
			return got;
	}
	return pin_user_pages_fast(start, count, FOLL_LONGTERM, pages);
}

static int vcuda_range_pin(struct vcuda_range *range)
{
	struct page **pages = kmalloc_array(VCUDA_PIN_BATCH, sizeof(*pages), GFP_KERNEL);
	u64 at = range->start;
	int status = 0, got, i;

	if (!pages)
		return -ENOMEM;
	while (at < range->end && !status) {
		got = vcuda_pin_pages(range, at, min_t(u64, (range->end - at) >> PAGE_SHIFT, VCUDA_PIN_BATCH), pages);
		if (got <= 0) {
			status = got == -ENOMEM || got == -EINTR ? got : -EFAULT;
			break;
		}
		for (i = 0; i < got && !status; i++)
			status = vcuda_range_append(range, pages[i]);
		if (status)
			unpin_user_pages(pages + i - 1, got - (i - 1));
		else if (fatal_signal_pending(current))
			status = -EINTR;
		else
			status = vcuda_range_worth(range);
		at += (u64)got << PAGE_SHIFT;
		cond_resched();
	}
	kfree(pages);
	return status;
}

/* Guest memory on huge pages of the host can only be mapped in whole ones. */
static int vcuda_range_check(const struct vcuda_range *range, u32 page_shift)
{
	u64 mask = (1ull << page_shift) - 1;
	size_t i;

	if (page_shift == PAGE_SHIFT)
		return 0;
	for (i = 0; i < range->count; i++)
		if ((page_to_phys(range->runs[i].first) | ((u64)range->runs[i].pages << PAGE_SHIFT)) & mask)
			return -EADDRNOTAVAIL;
	return 0;
}

/* Gives the pages back: the host was never told of them, or confirmed that it dropped them. Not in the tree. */
static void vcuda_range_free(struct vcuda_context *context, struct vcuda_range *range)
{
	size_t i;

	for (i = 0; i < range->count; i++) {
		unpin_user_page_range_dirty_lock(range->runs[i].first, range->runs[i].pages, range->writable);
		cond_resched();
	}
	atomic64_sub(range->charged, &context->mm->pinned_vm);
	vcuda_user_uncharge(context->user, range->charged);
	kvfree(range->runs);
	kfree(range);
}

static void vcuda_range_remove(struct vcuda_context *context, struct vcuda_range *range)
{
	mutex_lock(&context->lock);
	rb_erase(&range->node, &context->ranges);
	mutex_unlock(&context->lock);
	vcuda_range_free(context, range);
}

static void vcuda_range_set_ready(struct vcuda_context *context, struct vcuda_range *range)
{
	mutex_lock(&context->lock);
	range->state = VCUDA_RANGE_READY;
	mutex_unlock(&context->lock);
}

/* One MAP message, from run *next and byte *offset on. */
static int vcuda_range_map_part(struct vcuda_context *context, struct vcuda_range *range, size_t *next, u64 *offset)
{
	struct vcuda_call *call = vcuda_call_new(context->device, VCUDA_CTL_MAP, context->generation);
	u64 length, part = 0;
	int status = 0;

	if (!call)
		return -ENOMEM;
	call->request.context = context->id;
	call->request.address = range->start;
	call->request.length = range->end - range->start;
	call->request.offset = *offset;
	call->request.uid = from_kuid_munged(&init_user_ns, current_uid());
	call->request.pid = task_tgid_nr(current);
	while (*next < range->count && call->request.extents < VCUDA_MAX_EXTENTS) {
		length = (u64)range->runs[*next].pages << PAGE_SHIFT;
		status = vcuda_call_add_extent(call, page_to_phys(range->runs[*next].first), length);
		if (status)
			goto put;
		part += length;
		(*next)++;
	}
	*offset += part;
	call->request.flags = (range->writable ? VCUDA_MAP_WRITABLE : 0) | (range->direct ? VCUDA_MAP_DIRECT : 0) |
			      (*next == range->count ? VCUDA_MAP_LAST : 0);
	vcuda_call_submit(call);
	status = vcuda_call_wait(call, 0);
put:
	vcuda_call_put(call);
	return status;
}

static int vcuda_range_map(struct vcuda_context *context, struct vcuda_range *range)
{
	size_t next = 0;
	u64 offset = 0;
	int status = 0;

	while (next < range->count && !status)
		status = vcuda_range_map_part(context, range, &next, &offset);
	return status;
}

/* Asks the host to drop the range, and frees it when the host says so. Else it stays, with the context. */
static int vcuda_range_unmap(struct vcuda_context *context, struct vcuda_range *range)
{
	struct vcuda_call *call = vcuda_call_new(context->device, VCUDA_CTL_UNMAP, context->generation);
	int status;

	if (!call)
		return -ENOMEM;
	call->request.context = context->id;
	call->request.address = range->start;
	call->request.length = range->end - range->start;
	vcuda_call_submit(call);
	status = vcuda_call_wait(call, 0);
	if (status != -EINTR || completion_done(&call->done)) {
		if (vcuda_call_confirmed(call)) {
			vcuda_range_remove(context, range);
			status = 0;
		}
	}
	vcuda_call_put(call);
	return status;
}

static int vcuda_pin_check(struct vcuda_context *context, const struct vcuda_pin *args)
{
	const struct vcuda_limits *limits = &context->device->limits;
	u64 mask = (1ull << limits->page_shift) - 1;

	if ((args->flags & ~(VCUDA_PIN_WRITABLE | VCUDA_PIN_DIRECT)) || args->reserved)
		return -EINVAL;
	if (!args->length || ((args->address | args->length) & ~PAGE_MASK))
		return -EINVAL;
	if (args->address >= TASK_SIZE_MAX || args->length > TASK_SIZE_MAX - args->address)
		return -EINVAL;
	if (((args->address | args->length) & mask) || (limits->max_mapping_bytes && args->length > limits->max_mapping_bytes))
		return -EADDRNOTAVAIL;
	if ((args->flags & VCUDA_PIN_DIRECT) && !vcuda_device_offers_direct(context->device))
		return -EOPNOTSUPP;
	return 0;
}

static struct vcuda_range *vcuda_range_new(struct vcuda_context *context, const struct vcuda_pin *args)
{
	struct vcuda_range *range = kzalloc(sizeof(*range), GFP_KERNEL_ACCOUNT);
	int status;

	if (!range)
		return ERR_PTR(-ENOMEM);
	range->start = args->address;
	range->end = args->address + args->length;
	range->writable = args->flags & VCUDA_PIN_WRITABLE;
	range->direct = args->flags & VCUDA_PIN_DIRECT;
	status = vcuda_user_charge(context->user, args->length >> PAGE_SHIFT);
	if (status) {
		kfree(range);
		return ERR_PTR(status);
	}
	range->charged = args->length >> PAGE_SHIFT;
	atomic64_add(range->charged, &context->mm->pinned_vm);
	mutex_lock(&context->lock);
	status = vcuda_range_insert(context, range);
	mutex_unlock(&context->lock);
	if (status) {
		vcuda_range_free(context, range);
		return ERR_PTR(status);
	}
	return range;
}

static int vcuda_pin_range(struct vcuda_context *context, const struct vcuda_pin *args)
{
	struct vcuda_range *range;
	int status;

	status = vcuda_pin_check(context, args);
	if (status)
		return status;
	range = vcuda_range_new(context, args);
	if (IS_ERR(range))
		return PTR_ERR(range);
	status = vcuda_range_pin(range);
	if (!status)
		status = vcuda_range_check(range, context->device->limits.page_shift);
	if (status) {
		vcuda_range_remove(context, range);
		return status;
	}
	status = vcuda_range_map(context, range);
	if (status) {
		vcuda_range_unmap(context, range);
		return status;
	}
	vcuda_range_set_ready(context, range);
	return 0;
}

int vcuda_pin(struct vcuda_context *context, const struct vcuda_pin *args)
{
	int status = vcuda_context_enter(context);

	if (status == -EINVAL)
		return status;
	status = status ? -ENODEV : vcuda_pin_range(context, args);
	vcuda_context_leave(context);
	return status;
}

static struct vcuda_range *vcuda_range_take(struct vcuda_context *context, const struct vcuda_unpin *args)
{
	struct vcuda_range *range;

	mutex_lock(&context->lock);
	range = vcuda_range_find(context, args->address);
	if (range && range->state == VCUDA_RANGE_READY && range->end - range->start == args->length)
		range->state = VCUDA_RANGE_BUSY;
	else
		range = NULL;
	mutex_unlock(&context->lock);
	return range;
}

int vcuda_unpin(struct vcuda_context *context, const struct vcuda_unpin *args)
{
	struct vcuda_range *range;
	int status = vcuda_context_enter(context);

	/* A lost worker is no obstacle: the host still confirms. */
	if (status == -EINVAL)
		return status;
	range = vcuda_range_take(context, args);
	status = range ? vcuda_range_unmap(context, range) : -ENOENT;
	/* Nothing was sent: the caller may try again. */
	if (range && status == -ENOMEM)
		vcuda_range_set_ready(context, range);
	vcuda_context_leave(context);
	return status;
}

/* After the host confirmed the context's end: no other thread uses the tree any more. */
void vcuda_pin_release_all(struct vcuda_context *context)
{
	struct vcuda_range *range, *next;

	rbtree_postorder_for_each_entry_safe(range, next, &context->ranges, node)
		vcuda_range_free(context, range);
	context->ranges = RB_ROOT;
}
