/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `vcuda doctor`: doctor.c asks about the program's own parts and the back ends, doctor-guest.c about devices of another
 * machine, doctor-sandbox.c about the sandbox of workers, doctor-vm.c about what a VM needs. doctor-report.c prints.
 */
#ifndef VCUDA_CLI_DOCTOR_H
#define VCUDA_CLI_DOCTOR_H

#include "cli.h"

enum finding {
	FOUND,   /* "ok" */
	NOTED,   /* "note": works without, but worth knowing */
	MISSING, /* "missing": and then `mend` says what to do */
};

enum doctor_verdict {
	NOT_ASKED,
	CAN_WORK,
	CANNOT_WORK,
};

void doctor_begin(bool as_json);
void doctor_end(enum doctor_verdict programs, enum doctor_verdict run, enum doctor_verdict vm_run);

/* Prints one line, or two with `mend`; returns true unless it is missing. */
bool doctor_say(enum finding finding, const char *subject, const char *mend, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The first line of what `command` prints, empty if it fails. */
bool doctor_output(char *line, size_t size, char *const command[]);

/* The devices that a libcuda.so.1 has, in a line, or why there is none; asked in a child process. True if there is one. */
bool doctor_driver(const char *file, char *line, size_t size);

/* Whether programs have devices of another machine. NOT_ASKED: nothing here offers any. */
enum doctor_verdict doctor_guest(const struct cli_paths *paths);

void doctor_sandbox(void);

/* Asks about everything that `vcuda vm run` needs beyond what `vcuda run` needs. True if it can work. */
bool doctor_vm(const struct cli_paths *paths);

#endif
