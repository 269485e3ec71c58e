/* SPDX-License-Identifier: Apache-2.0 */
/* Findings as lines, or as JSON. */
#include "doctor.h"
#include "json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
	bool as_json;
	struct json json;
} report;

void doctor_begin(bool as_json)
{
	report.as_json = as_json;
	report.json = (struct json){.out = stdout};
	if (!as_json)
		return;
	json_open(&report.json, NULL, '{');
	json_open(&report.json, "findings", '[');
}

static void say_json(const char *word, const char *subject, const char *mend, const char *text)
{
	json_open(&report.json, NULL, '{');
	json_text(&report.json, "finding", word);
	json_text(&report.json, "subject", subject);
	json_text(&report.json, "text", text);
	json_text(&report.json, "mend", mend);
	json_close(&report.json, '}');
}

bool doctor_say(enum finding finding, const char *subject, const char *mend, const char *format, ...)
{
	static const char *const words[] = {"ok", "note", "missing"};
	char *text;
	va_list values;

	va_start(values, format);
	if (vasprintf(&text, format, values) < 0)
		abort();
	va_end(values);
	if (report.as_json)
		say_json(words[finding], subject, mend, text);
	else
		printf("%-8s%s: %s\n%s%s%s", words[finding], subject, text, mend ? "        " : "", mend ? mend : "",
		       mend ? "\n" : "");
	free(text);
	return finding != MISSING;
}

static const char *verdict(enum doctor_verdict verdict)
{
	return verdict == CAN_WORK ? "can work" : "cannot work yet";
}

void doctor_end(enum doctor_verdict programs, enum doctor_verdict run, enum doctor_verdict vm_run)
{
	static const char *const words[] = {[NOT_ASKED] = NULL, [CAN_WORK] = "yes", [CANNOT_WORK] = "no"};

	if (report.as_json) {
		json_close(&report.json, ']');
		json_text(&report.json, "programs", words[programs]);
		json_text(&report.json, "vcuda run", words[run]);
		json_text(&report.json, "vcuda vm run", words[vm_run]);
		json_close(&report.json, '}');
		putchar('\n');
		return;
	}
	putchar('\n');
	if (programs != NOT_ASKED)
		printf("CUDA programs %s.%s", programs == CAN_WORK ? "can run here" : "cannot run here yet",
		       run != NOT_ASKED ? " " : "\n");
	if (run != NOT_ASKED)
		printf("`vcuda run` %s. `vcuda vm run` %s.\n", verdict(run), verdict(vm_run));
}
