// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shared area of a context: pages that the process maps and its worker maps too. Not movable, not swappable, never
 * remapped; a mapping holds references of its own.
 */
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "virtio-cuda.h"

#define VCUDA_SHARE_GFP (GFP_KERNEL_ACCOUNT | __GFP_ZERO)

/* Large blocks make few extents; small ones will do, down to the block order that the host asks for. */
static struct page *vcuda_share_block(unsigned long left, unsigned int block_order, unsigned int *order)
{
	struct page *page;

	for (*order = min_t(unsigned int, ilog2(left), PMD_SHIFT - PAGE_SHIFT); *order > block_order; (*order)--) {
		page = alloc_pages(VCUDA_SHARE_GFP | __GFP_NORETRY | __GFP_NOWARN, *order);
		if (page)
			return page;
	}
	*order = block_order;
	return alloc_pages(VCUDA_SHARE_GFP, *order);
}

/* Rounds up to whole blocks. */
int vcuda_share_alloc(struct vcuda_share *share, u64 bytes, unsigned int block_order)
{
	unsigned long count = ALIGN(bytes >> PAGE_SHIFT, 1ul << block_order), i;
	unsigned int order;
	struct page *page;

	share->block_order = block_order;
	share->pages = kvcalloc(count, sizeof(*share->pages), GFP_KERNEL_ACCOUNT);
	if (!share->pages)
		return -ENOMEM;
	while (share->count < count) {
		page = vcuda_share_block(count - share->count, block_order, &order);
		if (!page) {
			vcuda_share_free(share);
			return -ENOMEM;
		}
		if (order)
			split_page(page, order);
		for (i = 0; i < 1ul << order; i++)
			share->pages[share->count++] = page + i;
	}
	return 0;
}

int vcuda_share_describe(const struct vcuda_share *share, struct vcuda_call *call)
{
	unsigned long i = 0, next;
	int status = 0;

	for (; i < share->count && !status; i = next) {
		phys_addr_t start = page_to_phys(share->pages[i]);

		for (next = i + 1; next < share->count; next++)
			if (page_to_phys(share->pages[next]) != start + ((phys_addr_t)(next - i) << PAGE_SHIFT))
				break;
		status = vcuda_call_add_extent(call, start, (u64)(next - i) << PAGE_SHIFT);
	}
	return status;
}

/* A forked child must not get the shared area: the ring belongs to one process. */
int vcuda_share_map(const struct vcuda_share *share, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	vcuda_vma_set_flags(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vcuda_vma_clear_flags(vma, VM_MAYEXEC);
	return vm_map_pages(vma, share->pages, share->count);
}

u32 vcuda_share_read(const struct vcuda_share *share, u32 offset)
{
	const void *page = page_address(share->pages[offset >> PAGE_SHIFT]);

	return READ_ONCE(*(const u32 *)(page + offset_in_page(offset)));
}

void vcuda_share_free(struct vcuda_share *share)
{
	while (share->count)
		__free_page(share->pages[--share->count]);
	kvfree(share->pages);
	share->pages = NULL;
}
