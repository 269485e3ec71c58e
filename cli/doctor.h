/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `vcuda doctor`: doctor.c asks about the program's own parts and the back ends, doctor-sandbox.c about the sandbox of
 * workers, doctor-vm.c about what a VM needs.
 */
#ifndef VCUDA_CLI_DOCTOR_H
#define VCUDA_CLI_DOCTOR_H

#include "cli.h"

enum finding {
	FOUND,   /* "ok" */
	NOTED,   /* "note": works without, but worth knowing */
	MISSING, /* "missing": and then `mend` says what to do */
};

/* Prints one line, or two with `mend`; returns true unless it is missing. */
bool doctor_say(enum finding finding, const char *subject, const char *mend, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The first line of what `command` prints, empty if it fails. */
bool doctor_output(char *line, size_t size, char *const command[]);

void doctor_sandbox(void);

/* Asks about everything that `vcuda vm run` needs beyond what `vcuda run` needs. True if it can work. */
bool doctor_vm(const struct cli_paths *paths);

#endif
