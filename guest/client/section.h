/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections: code of the process's threads that writes to the session's shared area or uses its descriptors. Sections
 * can be closed, for a process that is locked (cuCheckpointProcessLock): then no thread is in one, and each thread
 * waits where it would enter one. A section does not wait for the worker's answer to a command.
 *
 * A thread may enter a section that it is in. All functions are thread-safe; none fails.
 */
#ifndef VCUDA_CLIENT_SECTION_H
#define VCUDA_CLIENT_SECTION_H

#include <stdbool.h>

/* Waits while sections are closed. */
void client_section_enter(void);
void client_section_leave(void);

/* Leaves all sections that the thread is in. The value goes to client_section_resume(), which enters them again. */
unsigned int client_section_suspend(void);
void client_section_resume(unsigned int depth);

/* For one thread, which is in no section. Closes sections; threads may be in one still. */
void client_section_close(void);
bool client_section_is_empty(void);
void client_section_open(void);

/* In a forked child: sections are open, and no thread is in one. */
void client_section_forked(void);

#endif
