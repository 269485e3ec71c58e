/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hooks.h"

#include "core/capture.h"

_Atomic(const struct libcuda_capture_ops *) libcuda_capture_hook;
_Atomic(const struct libcuda_mirror_ops *) libcuda_mirror_hook;
CUresult (*libcuda_hook_pinned)(struct libcuda_context *context, void **memory, size_t bytes);
void (*libcuda_hook_open)(void);
_Atomic bool libcuda_hook_nodes;
void (*libcuda_hook_note)(const char *format, ...);

/* Complete before the first call of the application: no lock. */
static struct libcuda_observer *observers;

void libcuda_observe(struct libcuda_observer *observer)
{
	observer->next = observers;
	observers = observer;
}

void libcuda_hooks_context_ends(struct libcuda_context *context)
{
	for (const struct libcuda_observer *o = observers; o; o = o->next)
		if (o->context_ends)
			o->context_ends(context);
}

void libcuda_hooks_context_ended(struct libcuda_context *context)
{
	for (const struct libcuda_observer *o = observers; o; o = o->next)
		if (o->context_ended)
			o->context_ended(context);
}

void libcuda_hooks_context_memory_ends(struct libcuda_context *context)
{
	for (const struct libcuda_observer *o = observers; o; o = o->next)
		if (o->context_memory_ends)
			o->context_memory_ends(context);
}

void libcuda_hooks_thread_exits(struct libcuda_thread *thread)
{
	for (const struct libcuda_observer *o = observers; o; o = o->next)
		if (o->thread_exits)
			o->thread_exits(thread);
}
