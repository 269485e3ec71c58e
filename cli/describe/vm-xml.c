/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda vm xml`: a libvirt domain with a virtual GPU, or the elements that make one of a domain that is there. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/vm.h"

#define QEMU_SCHEMA "http://libvirt.org/schemas/domain/qemu/1.0"

struct domain {
	const char *name, *type, *emulator;
	char *image; /* NULL: elements only */
	const char *format;
	char socket[300];
	unsigned int cpus, memory_mib;
};

static int usage(FILE *out)
{
	fputs("usage: vcuda vm xml [--socket PATH] NAME\n"
	      "       vcuda vm xml --image FILE [--memory SIZE] [--cpus N] [--type kvm|qemu] [--emulator FILE]\n"
	      "                    [--socket PATH] NAME\n"
	      "\n"
	      "Prints the XML by which libvirt gives the domain NAME a virtual GPU: the elements to add with `virsh "
	      "edit\n"
	      "NAME`, or with --image a whole domain for `virsh define`.\n"
	      "\n"
	      "  --socket PATH    the domain's vcudad listens there (default: /run/vcuda/NAME.sock, as "
	      "vcudad@NAME.socket\n"
	      "                   and the hook for libvirt have it)\n"
	      "  --image FILE     the domain's disk, raw or qcow2; `vcuda vm init` puts driver and libraries into it\n"
	      "  --memory SIZE    such as 4G (default 4G)\n"
	      "  --cpus N         processors (default 2)\n"
	      "  --type kvm|qemu  qemu: without KVM, slowly (default: kvm where /dev/kvm is there)\n"
	      "  --emulator FILE  a QEMU 10.2 or later (default: /usr/bin/qemu-system-x86_64)\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

/* Also the name of a unit and of a file. */
static bool is_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	return *name && strchr(letters, *name) && strlen(name) < VM_NAME &&
	       strspn(name, "-_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == strlen(name);
}

/* A path in QEMU's options has no comma, in XML no control character. */
static bool is_path(const char *path)
{
	for (const char *c = path; *c; c++)
		if (*c == ',' || (unsigned char)*c < 0x20)
			return false;
	return *path == '/';
}

static bool parse_option(struct domain *d, int option, const char *value)
{
	char *end;

	switch (option) {
	case 's':
		return (size_t)snprintf(d->socket, sizeof(d->socket), "%s", value) < 108 && is_path(value);
	case 'm':
		return vm_memory_parse(value, &d->memory_mib);
	case 'c':
		d->cpus = (unsigned int)strtoul(value, &end, 10);
		return *value >= '1' && *value <= '9' && !*end && d->cpus <= 255;
	case 't':
		d->type = value;
		return !strcmp(value, "kvm") || !strcmp(value, "qemu");
	default:
		d->emulator = value;
		return is_path(value);
	}
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct domain *d, int argc, char **argv)
{
	static const struct option options[] = {
		{"socket", required_argument, NULL, 's'}, {"image", required_argument, NULL, 'i'},
		{"memory", required_argument, NULL, 'm'}, {"cpus", required_argument, NULL, 'c'},
		{"type", required_argument, NULL, 't'},   {"emulator", required_argument, NULL, 'e'},
		{"help", no_argument, NULL, 'h'},         {0}};
	int option, index = 0;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, &index)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option == '?') {
			cli_message("'%s' is no option of `vcuda vm xml`, or lacks its value", argv[optind - 1]);
			return usage(stderr);
		}
		if (option == 'i')
			d->image = vm_image_find("vm xml: --image", optarg, &d->format);
		if (option == 'i' ? d->image != NULL : parse_option(d, option, optarg))
			continue;
		if (option != 'i')
			cli_message("vm xml: --%s: '%s' is not possible; `vcuda vm xml --help` says what is",
				    options[index].name, optarg);
		return CLI_FAILED;
	}
	if (optind + 1 != argc)
		return usage(stderr);
	d->name = argv[optind];
	if (!is_name(d->name)) {
		cli_message("vm xml: a domain's name has letters, digits, '-', '_' and '.' here, not '%s'", d->name);
		return CLI_FAILED;
	}
	if (!*d->socket)
		snprintf(d->socket, sizeof(d->socket), "/run/vcuda/%s.sock", d->name);
	return -1;
}

static void print_escaped(const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			fputs("&amp;", stdout);
			break;
		case '<':
			fputs("&lt;", stdout);
			break;
		case '\'':
			fputs("&apos;", stdout);
			break;
		default:
			putchar(*text);
		}
}

/* Prints `before`, the text as part of an attribute in single quotes, and `after`. */
static void print_attribute(const char *before, const char *text, const char *after)
{
	fputs(before, stdout);
	print_escaped(text);
	fputs(after, stdout);
}

/* The daemon maps the guest's memory, so the memory is a file that both have. */
static void print_memory(void)
{
	puts("  <memoryBacking>\n"
	     "    <source type='memfd'/>\n"
	     "    <access mode='shared'/>\n"
	     "  </memoryBacking>");
}

/*
 * libvirt knows no such device. A root port of its own, which libvirt does not know either, lets the device be
 * unplugged. Its place and its number are far above those that libvirt gives to ports, which begin with 1: QEMU makes
 * this port first, and would put it where libvirt wants another one.
 */
static void print_device(const struct domain *d)
{
	puts("  <qemu:commandline>\n"
	     "    <qemu:arg value='-chardev'/>");
	print_attribute("    <qemu:arg value='socket,id=vcuda,path=", d->socket, "'/>\n");
	puts("    <qemu:arg value='-device'/>\n"
	     "    <qemu:arg value='pcie-root-port,id=vcuda-port,bus=pcie.0,addr=0x18,chassis=200'/>\n"
	     "    <qemu:arg value='-device'/>\n"
	     "    <qemu:arg value='vhost-user-test-device-pci,id=vcuda-gpu,bus=vcuda-port,virtio-id=38,num_vqs=3,"
	     "vq_size=128,config_size=64,chardev=vcuda'/>\n"
	     "  </qemu:commandline>");
}

static void print_elements(const struct domain *d)
{
	printf("<!-- `virsh edit %s`: <domain> gets the attribute xmlns:qemu='" QEMU_SCHEMA
	       "', and these elements. -->\n",
	       d->name);
	print_memory();
	print_device(d);
}

static void print_domain(const struct domain *d)
{
	printf("<domain type='%s' xmlns:qemu='" QEMU_SCHEMA "'>\n", d->type);
	printf("  <name>%s</name>\n"
	       "  <memory unit='MiB'>%u</memory>\n",
	       d->name, d->memory_mib);
	print_memory();
	printf("  <vcpu>%u</vcpu>\n"
	       "  <os>\n"
	       "    <type arch='x86_64' machine='q35'>hvm</type>\n"
	       "  </os>\n"
	       "  <features>\n"
	       "    <acpi/>\n"
	       "    <apic/>\n"
	       "  </features>\n"
	       "  <cpu mode='%s'/>\n"
	       "  <devices>\n",
	       d->cpus, strcmp(d->type, "kvm") ? "maximum" : "host-passthrough");
	print_attribute("    <emulator>", d->emulator, "</emulator>\n");
	printf("    <disk type='file' device='disk'>\n"
	       "      <driver name='qemu' type='%s'/>\n",
	       d->format);
	print_attribute("      <source file='", d->image, "'/>\n");
	puts("      <target dev='vda' bus='virtio'/>\n"
	     "    </disk>\n"
	     "    <interface type='user'>\n"
	     "      <model type='virtio'/>\n"
	     "    </interface>\n"
	     "    <serial type='pty'/>\n"
	     "    <rng model='virtio'>\n"
	     "      <backend model='random'>/dev/urandom</backend>\n"
	     "    </rng>\n"
	     "    <memballoon model='none'/>\n"
	     "  </devices>");
	print_device(d);
	puts("</domain>");
}

int cli_vm_xml(int argc, char **argv)
{
	struct domain d = {.type = vm_uses_kvm() ? "kvm" : "qemu",
			   .emulator = "/usr/bin/qemu-system-x86_64",
			   .cpus = 2,
			   .memory_mib = 4096};
	int status = parse(&d, argc, argv);

	if (status < 0) {
		if (d.image)
			print_domain(&d);
		else
			print_elements(&d);
		status = fflush(stdout) ? CLI_FAILED : 0;
	}
	free(d.image);
	return status;
}
