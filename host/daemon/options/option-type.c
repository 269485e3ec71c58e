/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options: text, checked and turned into members of struct daemon_options, and back. */
#include "options/option-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "options/cache-folder.h"
#include "options/quotas.h"
#include "options/worker-user.h"
#include "protocol/ipc/ledger.h"

#define DEVICE_MOST 63
#define FORMAT_ADVICE(...) snprintf(advice, DAEMON_ADVICE_BYTES, __VA_ARGS__)

static void *member(struct daemon_options *options, const struct daemon_option *option)
{
	return (char *)options + option->offset;
}

static const void *member_of(const struct daemon_options *options, const struct daemon_option *option)
{
	return (const char *)options + option->offset;
}

static bool print_text(char text[DAEMON_VALUE_BYTES], const char *value)
{
	if (value)
		snprintf(text, DAEMON_VALUE_BYTES, "%s", value);
	return value;
}

static bool one_of(const char *value, const char *const list[])
{
	while (*list && strcmp(value, *list))
		list++;
	return *list;
}

/* ---- text and paths ---- */

static bool set_text(struct daemon_options *options, const struct daemon_option *option, const char *value,
		     char *advice)
{
	if (!*value) {
		FORMAT_ADVICE("give a value");
		return false;
	}
	memcpy(member(options, option), &value, sizeof(value));
	return true;
}

static bool get_text(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	const char *value;

	memcpy(&value, member_of(options, option), sizeof(value));
	return print_text(text, value);
}

const struct daemon_option_type daemon_type_text = {set_text, get_text};

static bool set_path(struct daemon_options *options, const struct daemon_option *option, const char *value,
		     char *advice)
{
	if (*value && strlen(value) < sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return set_text(options, option, value, advice);
	FORMAT_ADVICE("a socket's path has 1 to 107 characters");
	return false;
}

const struct daemon_option_type daemon_type_path = {set_path, get_text};

/* ---- flags ---- */

static bool set_flag(struct daemon_options *options, const struct daemon_option *option, const char *value,
		     char *advice)
{
	static const char *const words[] = {"yes", "no", NULL};

	if (value && !one_of(value, words)) {
		FORMAT_ADVICE("give yes or no");
		return false;
	}
	*(bool *)member(options, option) = !value || !strcmp(value, "yes");
	return true;
}

static bool get_flag(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	return print_text(text, *(const bool *)member_of(options, option) ? "yes" : "no");
}

const struct daemon_option_type daemon_type_flag = {set_flag, get_flag};

/* ---- numbers and sizes ---- */

static bool parse_number(const char *value, int base, uint64_t low, uint64_t high, unsigned int *number, char *advice)
{
	unsigned long long parsed;
	char *end;

	errno = 0;
	parsed = strtoull(value, &end, base);
	if (errno || end == value || *end || *value == '-' || parsed < low || parsed > high) {
		FORMAT_ADVICE(base == 8 ? "give an octal number from %llo to %llo" : "give a number from %llu to %llu",
			      (unsigned long long)low, (unsigned long long)high);
		return false;
	}
	*number = (unsigned int)parsed;
	return true;
}

static bool set_number(struct daemon_options *options, const struct daemon_option *option, const char *value,
		       char *advice)
{
	return parse_number(value, 10, option->low, option->high, member(options, option), advice);
}

/* A number that cannot be given means that the option has no value. */
static bool get_number(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	unsigned int number = *(const unsigned int *)member_of(options, option);

	snprintf(text, DAEMON_VALUE_BYTES, "%u", number);
	return number >= option->low && number <= option->high;
}

const struct daemon_option_type daemon_type_number = {set_number, get_number};

static bool set_octal(struct daemon_options *options, const struct daemon_option *option, const char *value,
		      char *advice)
{
	return parse_number(value, 8, option->low, option->high, member(options, option), advice);
}

static bool get_octal(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	snprintf(text, DAEMON_VALUE_BYTES, "%04o", *(const unsigned int *)member_of(options, option));
	return true;
}

const struct daemon_option_type daemon_type_octal = {set_octal, get_octal};

/* With the largest unit that leaves no rest, so that the text is read as the same number. */
static void print_size(char text[DAEMON_VALUE_BYTES], uint64_t bytes)
{
	static const char units[] = "KMGT";
	unsigned int unit = 0;

	for (; bytes && !(bytes & 1023) && unit < 4; unit++)
		bytes >>= 10;
	snprintf(text, DAEMON_VALUE_BYTES, "%llu%.1s", (unsigned long long)bytes, unit ? units + unit - 1 : "");
}

static bool set_size(struct daemon_options *options, const struct daemon_option *option, const char *value,
		     char *advice)
{
	uint64_t parsed;

	if (!daemon_parse_size(value, &parsed) || parsed < option->low || parsed > VCUDA_LEDGER_NO_LIMIT) {
		FORMAT_ADVICE("give a size such as 512M or 8G");
		return false;
	}
	*(uint64_t *)member(options, option) = parsed;
	return true;
}

static bool get_size(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	uint64_t bytes = *(const uint64_t *)member_of(options, option);

	print_size(text, bytes);
	return bytes >= option->low;
}

const struct daemon_option_type daemon_type_size = {set_size, get_size};

static bool set_quota(struct daemon_options *options, const struct daemon_option *option, const char *value,
		      char *advice)
{
	char range[64];

	if (daemon_quota_set(options, (enum daemon_quota)option->low, value))
		return true;
	daemon_quota_range((enum daemon_quota)option->low, range, sizeof(range));
	FORMAT_ADVICE("give %s", range);
	return false;
}

static bool get_quota(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	enum daemon_quota quota = (enum daemon_quota)option->low;
	uint64_t value = daemon_quota_get(options, quota);

	if (daemon_quota_kind(quota)->is_size)
		print_size(text, value);
	else
		snprintf(text, DAEMON_VALUE_BYTES, "%llu", (unsigned long long)value);
	return value < VCUDA_LEDGER_NO_LIMIT;
}

const struct daemon_option_type daemon_type_quota = {set_quota, get_quota};

/* ---- each of one option ---- */

static bool set_name(struct daemon_options *options, const struct daemon_option *option, const char *value,
		     char *advice)
{
	(void)option;
	if (daemon_is_name(value)) {
		strcpy(options->name, value);
		return true;
	}
	FORMAT_ADVICE("give 1 to %zu letters, digits, \"-\", \"_\" or \".\"", sizeof(options->name) - 1);
	return false;
}

static bool get_name(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	(void)option;
	return print_text(text, *options->name ? options->name : NULL);
}

const struct daemon_option_type daemon_type_name = {set_name, get_name};

static bool set_backend(struct daemon_options *options, const struct daemon_option *option, const char *value,
			char *advice)
{
	static const char *const backends[] = {"auto", "cuda", "cpu", NULL};

	(void)option;
	options->backend = value;
	FORMAT_ADVICE("choose auto, cuda or cpu");
	return one_of(value, backends);
}

static bool get_backend(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	(void)option;
	return print_text(text, options->backend);
}

const struct daemon_option_type daemon_type_backend = {set_backend, get_backend};

static bool set_sandbox(struct daemon_options *options, const struct daemon_option *option, const char *value,
			char *advice)
{
	static const char *const modes[] = {"strict", "best-effort", "log", "off", NULL};

	(void)option;
	options->sandbox = value;
	FORMAT_ADVICE("choose strict, best-effort, log or off");
	return one_of(value, modes);
}

static bool get_sandbox(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	(void)option;
	return print_text(text, options->sandbox);
}

const struct daemon_option_type daemon_type_sandbox = {set_sandbox, get_sandbox};

static bool set_worker_user(struct daemon_options *options, const struct daemon_option *option, const char *value,
			    char *advice)
{
	static const char *const words[] = {"auto", "none", NULL};

	(void)option;
	options->worker_user = value;
	options->user = (struct daemon_worker_user){0};
	FORMAT_ADVICE("give auto, none, the name of a user, UID or UID:GID, but not root");
	return one_of(value, words) || daemon_worker_user_parse(value, &options->user);
}

static bool get_worker_user(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	(void)option;
	return print_text(text, options->worker_user);
}

const struct daemon_option_type daemon_type_worker_user = {set_worker_user, get_worker_user};

static bool set_warm_device(struct daemon_options *options, const struct daemon_option *option, const char *value,
			    char *advice)
{
	unsigned int number = 0;
	bool none = !strcmp(value, "none");

	(void)option;
	if (!none && !parse_number(value, 10, 0, DEVICE_MOST, &number, advice))
		return false;
	options->warm_device = none ? -1 : (int)number;
	return true;
}

static bool get_warm_device(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	(void)option;
	snprintf(text, DAEMON_VALUE_BYTES, "%d", options->warm_device);
	return options->warm_device >= 0 || print_text(text, "none");
}

const struct daemon_option_type daemon_type_warm_device = {set_warm_device, get_warm_device};

/* One processor's number at the beginning of `text`, which moves behind it. */
static unsigned long processor(const char **text)
{
	char *end;
	unsigned long value = strtoul(*text, &end, 10);

	if (**text < '0' || **text > '9' || value >= CPU_SETSIZE)
		return CPU_SETSIZE;
	*text = end;
	return value;
}

static bool parse_processors(const char *at, cpu_set_t *set)
{
	CPU_ZERO(set);
	do {
		unsigned long first = processor(&at), last = first;

		if (*at == '-') {
			at++;
			last = processor(&at);
		}
		if (first > last || last >= CPU_SETSIZE || (*at && *at != ','))
			return false;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			CPU_SET(cpu, set);
	} while (*at && at++);
	return true;
}

static bool set_cpus(struct daemon_options *options, const struct daemon_option *option, const char *value,
		     char *advice)
{
	(void)option;
	options->cpus_list = value;
	FORMAT_ADVICE("give a list such as 0-7,16");
	return parse_processors(value, &options->cpus);
}

static bool get_cpus(const struct daemon_options *options, const struct daemon_option *option, char *text)
{
	(void)option;
	return print_text(text, options->cpus_list);
}

const struct daemon_option_type daemon_type_cpus = {set_cpus, get_cpus};

static bool set_cache(struct daemon_options *options, const struct daemon_option *option, const char *value,
		      char *advice)
{
	(void)option;
	options->cache = value;
	FORMAT_ADVICE("give letters, digits, dots and dashes, e.g. web-1");
	return daemon_cache_is_name(value);
}

const struct daemon_option_type daemon_type_cache = {set_cache, get_text};
