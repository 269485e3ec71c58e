/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers GET /metrics with a text, on a port of 127.0.0.1 or on a Unix socket of mode 0600. Clients do not wait for
 * each other: one that sends or reads too slowly is closed after some seconds, or earlier if others need its place.
 */
#ifndef VCUDA_CLI_METRICS_HTTP_H
#define VCUDA_CLI_METRICS_HTTP_H

#include <stdio.h>

/* Writes the text of one answer. */
typedef void metrics_http_text(FILE *out, const void *context);

/* Serves until SIGINT, SIGTERM or SIGHUP. `where`: a port or a path. Returns the exit status; prints what fails before.
 */
int metrics_http_serve(const char *where, metrics_http_text *text, const void *context);

#endif
