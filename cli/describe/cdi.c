/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `vcuda cdi generate`: a specification of the Container Device Interface, by which podman, Docker and containerd give
 * a container the socket of a vcudad, our libraries and this command.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/smi/smi.h"

#define KIND "virtio-cuda/gpu"
/* The first version in which a device's name may begin with a digit. */
#define CDI_VERSION "0.5.0"
#define SYSTEM_SOCKET "/run/vcuda/socket"
/* In the container: a program finds the socket here without a variable. */
#define CONTAINER_SOCKET "/run/vcuda/socket"
#define GUEST_NODE "/dev/vcuda"
#define MAX_DEVICES 64

/*
 * Folders that glibc's loaders search without a configuration: Debian's searches /usr/lib behind folders of its own,
 * those of Red Hat and SUSE search /usr/lib64. Neither needs ldconfig nor LD_LIBRARY_PATH, which images set themselves.
 * Libraries of the image in folders of ld.so.conf come first. musl's loader searches /usr/lib, and says what it lacks.
 */
static const char *const container_folders[] = {"/usr/lib", "/usr/lib64"};

struct generate {
	const struct cli_paths *paths;
	const char *output; /* NULL: standard output */
	const char *socket; /* NULL: the one that listens */
	bool node;          /* the device node of a VM, in place of a socket */
	struct named {
		const char *name, *socket;
	} named[MAX_DEVICES];
	unsigned int count;
};

static int usage(FILE *out)
{
	fputs("usage: vcuda cdi generate [--output FILE] [--socket PATH] [--device NAME=SOCKET]...\n"
	      "\n"
	      "Writes the specification by which container engines give a container a virtual GPU (CDI, Container "
	      "Device\n"
	      "Interface). `podman run --device " KIND "=all IMAGE PROGRAM` uses it.\n"
	      "\n"
	      "  --output FILE         written at once or not at all; /etc/cdi/vcuda.json is where engines look "
	      "(default:\n"
	      "                        standard output)\n"
	      "  --socket PATH         the vcudad for `=all`, `=0`, `=1` and so on, one for each of its devices "
	      "(default:\n"
	      "                        " SYSTEM_SOCKET ", or the user's own; in a VM " GUEST_NODE ", and no socket)\n"
	      "  --device NAME=SOCKET  `=NAME` gives a container the vcudad that listens on SOCKET, with its own "
	      "quotas\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

/* The engines' rule for names of devices. */
static bool is_name(const char *name, size_t length)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	for (size_t i = 0; i < length; i++)
		if (!strchr(ends, name[i]) && (i == 0 || i == length - 1 || !strchr("-_.:", name[i])))
			return false;
	return length > 0;
}

/* The engines' rule allows an absolute path only. */
static char *absolute(const char *path)
{
	char *found = realpath(path, NULL);

	if (!found)
		cli_message("cdi: %s: %s", path, strerror(errno));
	return found;
}

static bool take_device(struct generate *g, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals || !is_name(text, (size_t)(equals - text))) {
		cli_message(
			"cdi: --device is NAME=SOCKET, where NAME has letters, digits, and '-', '_', '.', ':' between "
			"them, not '%s'",
			text);
		return false;
	}
	*equals = '\0';
	if (g->count == MAX_DEVICES) {
		cli_message("cdi: --device: there are at most %d", MAX_DEVICES);
		return false;
	}
	if (!strcmp(text, "all") || strspn(text, "0123456789") == strlen(text)) {
		cli_message("cdi: --device %s: 'all' and numbers are the devices of --socket; choose another name",
			    text);
		return false;
	}
	for (unsigned int i = 0; i < g->count; i++)
		if (!strcmp(g->named[i].name, text)) {
			cli_message("cdi: --device %s is given twice", text);
			return false;
		}
	g->named[g->count].name = text;
	g->named[g->count].socket = absolute(equals + 1);
	return g->named[g->count++].socket != NULL;
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct generate *g, int argc, char **argv)
{
	static const struct option options[] = {{"output", required_argument, NULL, 'o'},
						{"socket", required_argument, NULL, 's'},
						{"device", required_argument, NULL, 'd'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "ho:", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option == '?') {
			cli_message("'%s' is no option of `vcuda cdi generate`, or lacks its value", argv[optind - 1]);
			return usage(stderr);
		}
		if (option == 'o')
			g->output = optarg;
		else if (option == 's' && !(g->socket = absolute(optarg)))
			return CLI_FAILED;
		else if (option == 'd' && !take_device(g, optarg))
			return CLI_FAILED;
	}
	return optind == argc ? -1 : usage(stderr);
}

/* ---- the devices of the daemon ---- */

/* Sets the devices' UUIDs. Returns their number; -1 with a message if they cannot be listed. */
static int list_devices(const struct generate *g, char uuids[MAX_DEVICES][96])
{
	unsigned int count = 0;
	nvmlReturn_t result;
	nvmlDevice_t device;

	if (!smi_load(g->paths))
		return -1;
	if (!g->node) {
		setenv("VCUDA_SOCKET", g->socket, 1);
		setenv("VCUDA_TRANSPORT", "local", 1);
	}
	result = nvml.Init_v2();
	if (result == NVML_SUCCESS)
		result = nvml.DeviceGetCount_v2(&count);
	if (count > MAX_DEVICES)
		count = MAX_DEVICES;
	for (unsigned int i = 0; i < count && result == NVML_SUCCESS; i++) {
		result = nvml.DeviceGetHandleByIndex_v2(i, &device);
		if (result == NVML_SUCCESS)
			result = nvml.DeviceGetUUID(device, uuids[i], sizeof(uuids[i]));
	}
	if (result != NVML_SUCCESS) {
		cli_message("cdi: the vcudad at %s cannot be asked for its devices: %s",
			    g->node ? GUEST_NODE : g->socket, nvml.ErrorString(result));
		return -1;
	}
	nvml.Shutdown();
	return (int)count;
}

/* ---- the specification ---- */

static void write_mount(struct json *json, const char *from, const char *to)
{
	json_open(json, NULL, '{');
	json_text(json, "hostPath", from);
	json_text(json, "containerPath", to);
	json_open(json, "options", '[');
	for (const char *const *option = (const char *[]){"ro", "nosuid", "nodev", "bind", NULL}; *option; option++)
		json_text(json, NULL, *option);
	json_close(json, ']');
	json_close(json, '}');
}

/* uuid: NULL: all devices of the daemon. socket: NULL: the VM's node. */
static void write_device(struct json *json, const char *name, const char *uuid, const char *socket)
{
	char variable[128];

	json_open(json, NULL, '{');
	json_text(json, "name", name);
	json_open(json, "containerEdits", '{');
	if (uuid) {
		snprintf(variable, sizeof(variable), "CUDA_VISIBLE_DEVICES=%s", uuid);
		json_open(json, "env", '[');
		json_text(json, NULL, variable);
		json_close(json, ']');
	}
	json_open(json, socket ? "mounts" : "deviceNodes", '[');
	if (socket) {
		write_mount(json, socket, CONTAINER_SOCKET);
	} else {
		json_open(json, NULL, '{');
		json_text(json, "path", GUEST_NODE);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
	json_close(json, '}');
}

/* Names that programs look for end with a version: libcuda.so is for linkers. */
static int is_library(const struct dirent *entry)
{
	const char *ending = strstr(entry->d_name, ".so.");

	return !strncmp(entry->d_name, "lib", 3) && ending && strspn(ending + 4, "0123456789.") == strlen(ending + 4);
}

/* Files and not their folder: a build tree has links to other folders. Returns how many, or -1 with a message. */
static int write_libraries(struct json *json, const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_library, alphasort), written = 0;
	char path[PATH_MAX + 257], to[300], *file;

	if (count < 0)
		return errno == ENOENT ? 0 : -1;
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		file = realpath(path, NULL);
		for (size_t k = 0; file && k < sizeof(container_folders) / sizeof(container_folders[0]); k++) {
			snprintf(to, sizeof(to), "%s/%s", container_folders[k], entries[i]->d_name);
			write_mount(json, file, to);
		}
		written += file != NULL;
		free(file);
		free(entries[i]);
	}
	free(entries);
	return written;
}

static bool write_common(struct json *json, const struct cli_paths *paths)
{
	char math[PATH_MAX + 8];

	snprintf(math, sizeof(math), "%s/math", paths->guest_lib);
	json_open(json, "containerEdits", '{');
	/* A container runtime of NVIDIA's is not to add its driver too because the image asks for it. */
	json_open(json, "env", '[');
	json_text(json, NULL, "NVIDIA_VISIBLE_DEVICES=void");
	json_close(json, ']');
	json_open(json, "mounts", '[');
	if (!*paths->self) {
		cli_message("cdi: the path of this program is not known: is /proc there?");
		return false;
	}
	if (write_libraries(json, paths->guest_lib) <= 0 || write_libraries(json, math) < 0) {
		cli_message("cdi: %s has no libraries that can be read. VCUDA_GUEST_LIB names their folder",
			    paths->guest_lib);
		return false;
	}
	write_mount(json, paths->self, "/usr/bin/vcuda");
	write_mount(json, paths->self, "/usr/bin/nvidia-smi");
	json_close(json, ']');
	json_close(json, '}');
	return true;
}

static bool write_specification(const struct generate *g, int devices, char uuids[MAX_DEVICES][96], FILE *out)
{
	struct json json = {.out = out, .lines = true};
	char name[16];
	bool good;

	json_open(&json, NULL, '{');
	json_text(&json, "cdiVersion", CDI_VERSION);
	json_text(&json, "kind", KIND);
	json_open(&json, "devices", '[');
	if (devices > 0)
		write_device(&json, "all", NULL, g->socket);
	for (int i = 0; i < devices; i++) {
		snprintf(name, sizeof(name), "%d", i);
		write_device(&json, name, uuids[i], g->socket);
	}
	for (unsigned int i = 0; i < g->count; i++)
		write_device(&json, g->named[i].name, NULL, g->named[i].socket);
	json_close(&json, ']');
	good = write_common(&json, g->paths);
	json_close(&json, '}');
	fputc('\n', out);
	return good;
}

/* An engine that reads the folder meanwhile sees the old file or the new one. */
static bool put_file(const char *path, const char *text, size_t length)
{
	char temporary[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path) : 0, fd;
	bool good;

	/* Engines pass over a file of another ending. */
	if ((size_t)snprintf(temporary, sizeof(temporary), "%.*s%s.vcuda-cdi.XXXXXX", folder, path, slash ? "/" : "") >=
	    sizeof(temporary)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (folder) {
		temporary[folder] = '\0';
		if (mkdir(temporary, 0755) && errno != EEXIST)
			return false;
		temporary[folder] = '/';
	}
	fd = mkstemp(temporary);
	if (fd < 0)
		return false;
	good = write(fd, text, length) == (ssize_t)length && !fchmod(fd, 0644) && !fsync(fd) &&
	       !rename(temporary, path);
	if (!good) {
		int error = errno;

		unlink(temporary);
		errno = error;
	}
	close(fd);
	return good;
}

static int put(const struct generate *g, const char *text, size_t length)
{
	if (!g->output)
		return fwrite(text, 1, length, stdout) == length && !fflush(stdout) ? 0 : CLI_FAILED;
	if (put_file(g->output, text, length))
		return 0;
	cli_message("cdi: %s cannot be written: %s", g->output, strerror(errno));
	return CLI_FAILED;
}

/* Sets `socket` to the daemon whose devices get numbers; leaves NULL where only those of --device are wanted. */
static bool find_socket(struct generate *g, char *found, size_t size)
{
	char *path;

	for (unsigned int i = 0; i < g->count; i++)
		if (!cli_is_listening(g->named[i].socket))
			cli_message("cdi: no vcudad listens at %s: containers with %s=%s have no GPU until one does",
				    g->named[i].socket, KIND, g->named[i].name);
	if (!g->socket && !access(GUEST_NODE, F_OK)) {
		g->node = true;
		return true;
	}
	if (!g->socket) {
		if (cli_is_listening(SYSTEM_SOCKET))
			snprintf(found, size, SYSTEM_SOCKET);
		else if (!cli_socket_find(found, size) && g->count)
			return true;
		path = absolute(found);
		if (!path)
			cli_message("cdi: start a vcudad (`systemctl start vcudad.socket`, or `vcudad --socket PATH`), "
				    "or name "
				    "its socket with --socket");
		g->socket = path;
	}
	return g->socket != NULL;
}

static int generate(const struct cli_paths *paths, int argc, char **argv)
{
	struct generate g = {.paths = paths};
	char uuids[MAX_DEVICES][96], found[300], *text = NULL;
	size_t length = 0;
	int status = parse(&g, argc, argv), devices = 0;
	FILE *out;

	if (status >= 0)
		return status;
	if (!find_socket(&g, found, sizeof(found)))
		return CLI_FAILED;
	if (g.socket || g.node)
		devices = list_devices(&g, uuids);
	if (devices < 0)
		return CLI_FAILED;
	out = open_memstream(&text, &length);
	if (!out || !write_specification(&g, devices, uuids, out) || fclose(out))
		return CLI_FAILED;
	return put(&g, text, length);
}

int cli_cdi(const struct cli_paths *paths, int argc, char **argv)
{
	if (argc >= 2 && !strcmp(argv[1], "generate"))
		return generate(paths, argc - 1, argv + 1);
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return usage(stdout);
	return usage(stderr);
}
