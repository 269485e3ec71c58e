/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hooks.h"

#include "core/capture.h"

_Atomic(const struct vcuda_capture_ops *) vcuda_capture_hook;
_Atomic(const struct vcuda_mirror_ops *) vcuda_mirror_hook;
CUresult (*vcuda_hook_pinned)(struct vcuda_context *context, void **memory, size_t bytes);
void (*vcuda_hook_note)(const char *format, ...);

/* Complete before the first call of the application: no lock. */
static struct vcuda_observer *observers;

void vcuda_observe(struct vcuda_observer *observer)
{
	observer->next = observers;
	observers = observer;
}

void vcuda_hooks_context_ends(struct vcuda_context *context)
{
	for (const struct vcuda_observer *o = observers; o; o = o->next)
		if (o->context_ends)
			o->context_ends(context);
}

void vcuda_hooks_context_ended(struct vcuda_context *context)
{
	for (const struct vcuda_observer *o = observers; o; o = o->next)
		if (o->context_ended)
			o->context_ended(context);
}

void vcuda_hooks_context_memory_ends(struct vcuda_context *context)
{
	for (const struct vcuda_observer *o = observers; o; o = o->next)
		if (o->context_memory_ends)
			o->context_memory_ends(context);
}

void vcuda_hooks_thread_exits(struct vcuda_thread *thread)
{
	for (const struct vcuda_observer *o = observers; o; o = o->next)
		if (o->thread_exits)
			o->thread_exits(thread);
}
