/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda cache`: the compiled kernels of the software GPU, whose library does the work. */
#include "cli.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/kernel-cache.h"
#include "json.h"

struct options {
	const char *folder;
	bool json;
};

static int usage(FILE *out)
{
	fputs("usage: vcuda cache info [--dir DIR] [--json]\n"
	      "       vcuda cache build [--dir DIR] [--] PROGRAM [ARGUMENT...]\n"
	      "       vcuda cache export [--dir DIR] FILE\n"
	      "       vcuda cache import [--dir DIR] FILE\n"
	      "\n"
	      "Shows and fills the cache of kernels that the software GPU has compiled. A kernel is found there by its "
	      "own\n"
	      "code, the functions that it calls and the layout of its variables: a program that was built anew finds "
	      "its\n"
	      "unchanged kernels.\n"
	      "\n"
	      "  info    the folder, its entries and its limit\n"
	      "  build   runs the program on the software GPU, and compiles each kernel that it launches with all\n"
	      "          optimisation. Later runs with the same sizes of blocks compile nothing\n"
	      "  export  writes the entries of this machine's software GPU and processor to a file\n"
	      "  import  adds the entries of such a file, for an image or a machine of the same kind. The file must "
	      "belong\n"
	      "          to you or to root, and no other user may be able to write to it\n"
	      "\n"
	      "  --dir DIR  the cache in DIR/kernels (default: VCUDA_CACHE, else ~/.cache/vcuda; a VM has "
	      "~/.cache/vcuda/vm/VM)\n"
	      "  --json     as JSON\n",
	      out);
	return out == stderr ? CLI_FAILED : 0;
}

/* The library stays open: LLVM cannot be unloaded. */
static void *library(const struct cli_paths *paths)
{
	void *found = dlopen(paths->backend_cpu, RTLD_NOW | RTLD_LOCAL);

	if (!found)
		cli_message("cache: the software GPU cannot be loaded: %s. `vcuda doctor` says what to install",
			    dlerror());
	return found;
}

static bool look(void *from, struct vcuda_kernel_cache *cache)
{
	vcuda_kernel_cache_look *function = (vcuda_kernel_cache_look *)dlsym(from, "vcuda_cpu_cache_look");

	if (function)
		function(cache);
	else
		cli_message("cache: the software GPU is of another version");
	return function;
}

static uint64_t mib(uint64_t bytes)
{
	return (bytes + (1u << 20) - 1) >> 20;
}

static int info(const struct cli_paths *paths, const struct options *options)
{
	struct vcuda_kernel_cache cache;
	void *from = library(paths);

	if (!from || !look(from, &cache))
		return CLI_FAILED;
	if (options->json) {
		struct json json = {.out = stdout};

		json_open(&json, NULL, '{');
		json_text(&json, "folder", *cache.folder ? cache.folder : NULL);
		json_text(&json, "compiler", cache.compiler);
		json_number(&json, "limit_bytes", cache.limit);
		json_number(&json, "entries", cache.entries);
		json_number(&json, "bytes", cache.bytes);
		json_number(&json, "other_entries", cache.other_entries);
		json_number(&json, "other_bytes", cache.other_bytes);
		json_close(&json, '}');
		putchar('\n');
		return 0;
	}
	printf("folder    %s\n", *cache.folder ? cache.folder : "none: no kernels are kept");
	printf("compiler  %s\n", cache.compiler);
	printf("entries   %" PRIu64 ", %" PRIu64 " MiB\n", cache.entries, mib(cache.bytes));
	printf("others    %" PRIu64 ", %" PRIu64 " MiB, of other versions or processors\n", cache.other_entries,
	       mib(cache.other_bytes));
	printf("limit     %" PRIu64 " MiB (VCUDA_CPU_CACHE)\n", mib(cache.limit));
	return 0;
}

static int move_file(const struct cli_paths *paths, const char *path, bool out)
{
	void *from = library(paths);
	vcuda_kernel_cache_file *function =
		from ? (vcuda_kernel_cache_file *)dlsym(from, out ? "vcuda_cpu_cache_export" : "vcuda_cpu_cache_import")
		     : NULL;
	struct vcuda_kernel_cache cache;
	char why[PATH_MAX + 512];

	if (!from)
		return CLI_FAILED;
	if (!function || !function(path, &cache, why, sizeof(why))) {
		cli_message("cache: %s", function ? why : "the software GPU is of another version");
		return CLI_FAILED;
	}
	printf("%" PRIu64 " entries, %" PRIu64 " MiB %s %s\n", cache.entries, mib(cache.bytes),
	       out ? "are in" : "were added to", out ? path : cache.folder);
	return 0;
}

/* The program's exit status. */
static int run(const struct cli_paths *paths, int argc, char **argv)
{
	char *arguments[argc + 5];
	int status, count = 0;
	pid_t child;

	arguments[count++] = "run";
	arguments[count++] = "--backend";
	arguments[count++] = "cpu";
	arguments[count++] = "--";
	memcpy(arguments + count, argv, (size_t)argc * sizeof(*argv));
	arguments[count + argc] = NULL;
	setenv("VCUDA_CPU_COMPILE", "optimised", 1);
	fflush(NULL);
	child = fork();
	if (!child)
		exit(cli_run(paths, count + argc, arguments));
	if (child < 0) {
		cli_message("cache: %s", strerror(errno));
		return CLI_FAILED;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int build(const struct cli_paths *paths, int argc, char **argv)
{
	struct vcuda_kernel_cache before, after;
	void *from = library(paths);
	int status;

	if (!from || !look(from, &before))
		return CLI_FAILED;
	if (!*before.folder) {
		cli_message("cache: no kernels are kept, and so none are built");
		return CLI_FAILED;
	}
	status = run(paths, argc, argv);
	if (!look(from, &after))
		return CLI_FAILED;
	fprintf(stderr, "vcuda: cache: %" PRIu64 " entries were there, and %" PRIu64 " are: %" PRIu64 " MiB in %s\n",
		before.entries, after.entries, mib(after.bytes), after.folder);
	return status;
}

/* Returns the index of the first word that is no option; -1: a message says what is wrong. */
static int parse(struct options *o, const char *command, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (!strcmp(argv[i], "--json") && !strcmp(command, "info")) {
			o->json = true;
		} else if (!strcmp(argv[i], "--dir") && i + 1 < argc) {
			o->folder = argv[++i];
		} else {
			cli_message("cache %s: '%s' is no option, or lacks its value", command, argv[i]);
			return -1;
		}
	}
	return i;
}

int cli_cache(const struct cli_paths *paths, int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	struct options options = {0};
	char folder[PATH_MAX];
	int first;

	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return usage(stdout);
		else if (i > 1 && argv[i][0] != '-')
			break;
	if (strcmp(command, "info") && strcmp(command, "build") && strcmp(command, "export") &&
	    strcmp(command, "import"))
		return usage(stderr);
	first = parse(&options, command, argc - 1, argv + 1);
	if (first < 0)
		return CLI_FAILED;
	argc -= first + 1;
	argv += first + 1;
	if (!strcmp(command, "info") ? argc != 0 : !strcmp(command, "build") ? argc < 1 : argc != 1)
		return usage(stderr);
	if (options.folder) {
		if (!realpath(options.folder, folder)) {
			cli_message("cache: %s: %s", options.folder, strerror(errno));
			return CLI_FAILED;
		}
		setenv("VCUDA_CACHE", folder, 1);
	}
	if (!strcmp(command, "info"))
		return info(paths, &options);
	if (!strcmp(command, "build"))
		return build(paths, argc, argv);
	return move_file(paths, argv[0], !strcmp(command, "export"));
}
