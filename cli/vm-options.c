/* SPDX-License-Identifier: Apache-2.0 */
/* Options of `vcuda vm run`. */
#include "cli.h"
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int vm_usage(FILE *out)
{
	fputs("usage: vcuda vm run [options] [--] PROGRAM [ARGUMENT...]\n"
	      "       vcuda vm list | kill | set | exports | free ...  (see `vcuda vm list --help`)\n"
	      "       vcuda vm init | xml ...                 (see `vcuda vm init --help`, `vcuda vm xml --help`)\n"
	      "\n"
	      "Runs the program in a VM that sees this machine's files, read-only under a scratch layer, and has a "
	      "CUDA device.\n"
	      "\n"
	      "  --backend auto|cuda|cpu  who computes: a real GPU, or the software GPU (auto: a real one if there is "
	      "one)\n"
	      "  --cpus N                 processors of the VM (default: this machine's, at most 4)\n"
	      "  --memory SIZE            memory of the VM, such as 4G (default 2G)\n"
	      "  --register-ram           large copies go at full speed, and each program in the VM reaches all of its "
	      "memory (see `vcudad --help`)\n"
	      "  --sandbox MODE           of the workers: strict, best-effort, log or off (see `vcudad --help`)\n"
	      "  --kernel 6.1|6.12        which of Debian's kernels (default 6.1)\n"
	      "  --share HOW              how the VM is kept from writing to this machine's files: namespace "
	      "(default), "
	      "or\n"
	      "                           unprivileged, which needs no namespace and protects less (see "
	      "doc/threat-model.md)\n"
	      "  --rw DIR                 the VM writes to this folder of this machine, which it has under the same "
	      "name (up to 4\n"
	      "                           times). All else that the program writes is gone with the VM\n"
	      "  --image FILE             the VM has the files of this disk (raw or qcow2, as `vcuda vm init` leaves "
	      "it) in "
	      "place of this\n"
	      "                           machine's, and the program is one of its own. The disk is not changed\n"
	      "  --trace                  a line for each call of the CUDA driver, on standard error (see `vcuda run "
	      "--help`)\n"
	      "  --stats                  a table of these calls when the program exits\n"
	      "  --verbose                show what the daemon and QEMU say\n"
	      "\n"
	      "The program has this command's standard input, terminal and signals, and the exit status is the "
	      "program's. A\n"
	      "second SIGTERM ends the VM. As with ssh, input is read though the program may not want it: </dev/null "
	      "in loops\n"
	      "over a file.\n",
	      out);
	return out == stdout ? 0 : VM_FAILED;
}

static bool parse_number(const char *text, unsigned long least, unsigned long most, unsigned int *value, char **end)
{
	unsigned long number;

	errno = 0;
	number = strtoul(text, end, 10);
	if (errno || *end == text || *text == '-' || number < least || number > most)
		return false;
	*value = (unsigned int)number;
	return true;
}

bool vm_memory_parse(const char *text, unsigned int *mib)
{
	char *end;

	if (!parse_number(text, 1, 1 << 20, mib, &end))
		return false;
	if ((*end == 'G' || *end == 'g') && *mib <= 1024) {
		*mib *= 1024;
		end++;
	} else if (*end == 'M' || *end == 'm') {
		end++;
	}
	return !*end && *mib >= 256;
}

char *vm_image_find(const char *option, const char *name, const char **format)
{
	char magic[4] = "", *path = realpath(name, NULL);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	bool good = fd >= 0 && read(fd, magic, sizeof(magic)) >= 0;

	if (!good) {
		vm_message("%s: '%s': %s.", option, name, strerror(errno));
		free(path);
	}
	if (fd >= 0)
		close(fd);
	*format = memcmp(magic, "QFI\xfb", 4) ? "raw" : "qcow2";
	return good ? path : NULL;
}

static bool one_of(const char *text, const char *const list[])
{
	for (; *list; list++)
		if (!strcmp(text, *list))
			return true;
	return false;
}

/* A message when it returns false. */
static bool add_writable(const char *name, struct vm_options *options)
{
	char *path = realpath(name, NULL);
	struct stat status;

	if (options->writable_count == VM_WRITABLE_MAX)
		vm_message("--rw: at most %d folders.", VM_WRITABLE_MAX);
	else if (!path || stat(path, &status))
		vm_message("--rw: '%s': %s.", name, strerror(errno));
	else if (!S_ISDIR(status.st_mode))
		vm_message("--rw: '%s' is no folder.", name);
	else if (!strcmp(path, "/"))
		vm_message("--rw: not all of this machine's files. Name a folder.");
	else if (access(path, R_OK | W_OK | X_OK))
		vm_message("--rw: '%s' cannot be written here: %s.", name, strerror(errno));
	else {
		options->writable[options->writable_count++] = path;
		return true;
	}
	free(path);
	return false;
}

static bool parse_option(int option, const char *value, struct vm_options *options)
{
	static const char *const backends[] = {"auto", "cuda", "cpu", "none", NULL};
	static const char *const kernels[] = {"6.1", "6.12", NULL};
	static const char *const shares[] = {"namespace", "unprivileged", NULL};
	char *end;

	switch (option) {
	case 'b':
		options->backend = value;
		return one_of(value, backends);
	case 'c':
		return parse_number(value, 1, 255, &options->cpus, &end) && !*end;
	case 'm':
		return vm_memory_parse(value, &options->memory_mib);
	case 'k':
		options->kernel = value;
		return one_of(value, kernels);
	case 'r':
		options->register_ram = true;
		return true;
	case 'x':
		options->sandbox = value;
		return cli_is_sandbox(value);
	case 'f':
		options->unprivileged = !strcmp(value, "unprivileged");
		return one_of(value, shares);
	case 't':
		return !setenv("VCUDA_TRACE", "1", 1);
	case 's':
		return !setenv("VCUDA_STATS", "1", 1);
	case 'v':
		options->verbose = true;
		return true;
	default:
		return false;
	}
}

int vm_options_parse(int argc, char **argv, struct vm_options *options)
{
	static const struct option known[] = {
		{"backend", required_argument, NULL, 'b'}, {"cpus", required_argument, NULL, 'c'},
		{"memory", required_argument, NULL, 'm'},  {"kernel", required_argument, NULL, 'k'},
		{"register-ram", no_argument, NULL, 'r'},  {"sandbox", required_argument, NULL, 'x'},
		{"trace", no_argument, NULL, 't'},         {"stats", no_argument, NULL, 's'},
		{"verbose", no_argument, NULL, 'v'},       {"share", required_argument, NULL, 'f'},
		{"rw", required_argument, NULL, 'w'},      {"image", required_argument, NULL, 'i'},
		{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
	};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int option, index;

	*options = (struct vm_options){.backend = "auto", .kernel = "6.1", .memory_mib = 2048};
	options->cpus = processors > 4 ? 4 : processors < 1 ? 1 : (unsigned int)processors;
	optind = 1;
	argv[0] = "vcuda vm run";
	while ((option = getopt_long(argc, argv, "+h", known, &index)) != -1) {
		if (option == 'h')
			return vm_usage(stdout) + 1;
		if (option == '?')
			return vm_usage(stderr) + 1;
		if (option == 'i') {
			free(options->image);
			options->image = vm_image_find("--image", optarg, &options->image_format);
		}
		if (option == 'i'   ? options->image != NULL
		    : option == 'w' ? add_writable(optarg, options)
				    : parse_option(option, optarg, options))
			continue;
		if (option != 'w' && option != 'i')
			vm_message("--%s: '%s' is not possible. `vcuda vm run --help` says what is.", known[index].name,
				   optarg);
		return VM_FAILED + 1;
	}
	options->program = argv + optind;
	return *options->program ? 0 : vm_usage(stderr) + 1;
}
