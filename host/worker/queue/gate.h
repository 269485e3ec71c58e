/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate in front of the device (protocol/ipc/gate.h). Each command that gives the device work passes the gate, also
 * one that waits until that work is done. Queries, and waits for work that was given before, do not: they end by
 * themselves while the gate is closed. Thread-safe, but for worker_gate_serve().
 */
#ifndef VCUDA_WORKER_GATE_H
#define VCUDA_WORKER_GATE_H

#include <stdbool.h>

#include "session/session.h"

/*
 * Waits while the gate is closed, and if the command gives the device work for the VM's turn (turn.h). The calling
 * thread is behind the gate until worker_gate_leave(), which gets what worker_gate_enter() returns.
 */
bool worker_gate_enter(bool gives_work);
void worker_gate_leave(bool in_turn);

/* Serves vcudad's requests. Returns when vcudad closes the socket, or at once where there is none. */
void worker_gate_serve(struct worker_session *s);

#endif
