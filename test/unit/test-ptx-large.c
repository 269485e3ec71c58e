/* SPDX-License-Identifier: Apache-2.0 */
/* Large texts, whose bodies are read when a kernel needs them: what that costs does not grow with the rest. */
#include <time.h>

#include "../ptx/harness.h"
#include "ptx-run.h"
#include "ptx-source.h"

#define MANY_NAMES 20000
#define MANY_KERNELS 300
#define MANY_FUNCTIONS 16000

static struct ptx_module *load_large(char *text, const char *end)
{
	struct ptx_module *m;
	struct ptx_error error;

	if (ptx_module_create(text, (size_t)(end - text), &m, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	free(text);
	assert_non_null(m->facts);
	return m;
}

static char *start_large(char **text, size_t size)
{
	*text = malloc(size);
	assert_non_null(*text);
	return *text + sprintf(*text, "%s", PTX_HEAD);
}

/* What is declared at a text's start costs nothing for each kernel behind it. */
static void many_names(void **state)
{
	struct ptx_error error = {0};
	struct ptx_module *m;
	char *text, *end = start_large(&text, 32 * MANY_NAMES + 64 * MANY_KERNELS + 100);
	size_t used;

	(void)state;
	for (unsigned n = 0; n < MANY_NAMES; n++)
		end += sprintf(end, ".const .u32 a%u;\n", n);
	for (unsigned n = 0; n < MANY_KERNELS; n++)
		end += sprintf(end, ".visible .entry k%u()\n{\nret;\n}\n", n);
	m = load_large(text, end);
	used = m->arena.used;
	for (unsigned n = 0; n < MANY_KERNELS; n++)
		if (ptx_source_read(ptx_module_kernel(m, n), &error) != PTX_OK)
			fail_msg("kernel %u: %s", n, error.text);
	assert_true(m->arena.used - used < 4096 * MANY_KERNELS);
	ptx_module_destroy(m);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Bodies are read in the order of calls: going to and fro in the text takes no longer than reading it in order. */
static void any_order(void **state)
{
	struct ptx_error error = {0};
	struct ptx_module *m;
	char *text, *end = start_large(&text, 96 * MANY_FUNCTIONS + 100);
	double start = seconds(), loaded;

	(void)state;
	for (unsigned n = 0; n < MANY_FUNCTIONS; n++)
		end += sprintf(end, ".func f%u() {ret;}\n.const .u8 a%u;\n", n, n);
	end += sprintf(end, ".visible .entry k()\n{\n");
	for (unsigned n = 0; n < MANY_FUNCTIONS / 2; n++)
		end += sprintf(end, "call f%u;\ncall f%u;\n", n, MANY_FUNCTIONS - 1 - n);
	end += sprintf(end, "ret;\n}\n");
	m = load_large(text, end);
	loaded = seconds();
	assert_int_equal(ptx_source_read(ptx_module_kernel(m, 0), &error), PTX_OK);
	assert_true(seconds() - loaded < 3 * (loaded - start));
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(many_names), cmocka_unit_test(any_order)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
