/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `vcuda vm run`: runs a program in a VM that has the host's file system, a CUDA device, and nothing else.
 *
 * vm.c          the run from start to end
 * vm-options.c  options
 * vm-control.c  list, kill and set, for VMs that run
 * vm-prepare.c  finds or makes QEMU, kernel, driver and initramfs, by the scripts
 * vm-program.c  what the guest is to run, as an archive behind the initramfs
 * vm-process.c  the daemon, virtiofsd and QEMU
 * vm-view.h     the read-only sharing of the host's files
 * vm-stream.c   the program's input and output
 * vm-terminal.c the caller's terminal
 */
#ifndef VCUDA_CLI_VM_H
#define VCUDA_CLI_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define VM_PATH 4096
#define VM_END_TAG 33
#define VM_DIRECTORY 64
#define VM_NAME 64
/* Exit status if the program was not started, as of env(1) and docker(1). */
#define VM_FAILED 125
#define VM_WRITABLE_MAX 4 /* folders of this machine that the VM may write to */

struct vm_options {
	const char *backend; /* auto, cuda, cpu; none: no device */
	const char *kernel;  /* 6.1 or 6.12 */
	unsigned int cpus;
	unsigned int memory_mib;
	bool register_ram;               /* of the VM, with the GPU */
	const char *sandbox;             /* of workers; NULL: the daemon's default */
	bool unprivileged;               /* virtiofsd runs in no namespace, behind Landlock */
	char *writable[VM_WRITABLE_MAX]; /* real paths */
	unsigned int writable_count;
	bool verbose;
	char *image;              /* a disk in place of this machine's files; NULL: none */
	const char *image_format; /* raw or qcow2 */
	char **program;           /* ends with NULL */
};

/* The files that the scripts found or made. */
struct vm_parts {
	char qemu[VM_PATH], virtiofsd[VM_PATH], kernel[VM_PATH], initramfs[VM_PATH], daemon[VM_PATH];
};

/* Whether, and how, this machine's files can be shared read-only. */
struct vm_share {
	const char *sandbox; /* virtiofsd's --sandbox */
	char refused[256];   /* the feature that the kernel refuses, without a full stop; and the remedy */
	char mend[512];
};

/* The VM's virtio ports, each a stream of bytes. VM_TERMINAL is a console, and is there where the program has one. */
enum vm_port { VM_OUT, VM_ERR, VM_REPORT, VM_IN, VM_CONTROL, VM_TERMINAL, VM_PORTS };

struct vm_stream {
	int from, to;
	const char *end_tag;
	bool ended;
	char buffer[1 << 16];
	size_t held;
};

/* From the program's input to the VM. Neither end is waited for. */
struct vm_input {
	int from, to;
	bool to_stays_open; /* `to` carries the output of a terminal, too */
	bool ended;         /* `from` has no more */
	char buffer[1 << 16];
	size_t at, held;
};

enum vm_process { VM_DAEMON, VM_SHARE, VM_QEMU, VM_WRITABLE, VM_PROCESSES = VM_WRITABLE + VM_WRITABLE_MAX };

struct vm {
	const struct vm_options *options;
	struct vm_parts parts;
	struct vm_share share;
	char directory[VM_DIRECTORY]; /* sockets, logs and the view of the host's file system */
	char end_tag[VM_END_TAG];
	int initrd;                /* memfd: initramfs, program and end tag */
	int ports[VM_PORTS];       /* our ends; -1: there is none */
	int guest_ports[VM_PORTS]; /* QEMU's */
	bool terminal;             /* the program has our terminal as standard input and output */
	bool terminal_err;         /* and as standard error */
	bool begun;                /* the program runs */
	unsigned int terminations;         /* number of SIGTERMs while the program ran */
	pid_t processes[VM_PROCESSES];
};

/* argv[0] is "vm". The exit status: the program's, or 125 with a message when the VM could not run it. */
int cli_vm(int argc, char **argv);

/* 0, or the status to leave with, plus one. */
int vm_options_parse(int argc, char **argv, struct vm_options *options);
int vm_usage(FILE *out);
/* Such as 4G, in MiB; a number without a unit is MiB too, as QEMU has it. False: not a size that a VM can have. */
/* The disk's real path, which the caller frees, and its format; NULL with a message that begins with `option`. */
char *vm_image_find(const char *option, const char *name, const char **format);
bool vm_memory_parse(const char *text, unsigned int *mib);

/* vm-control.c: argv[0] is the name. The exit status: 0, or 125 with a message. */
int vm_list(int argc, char **argv);
int vm_kill(int argc, char **argv);
int vm_set(int argc, char **argv);
int vm_exports(int argc, char **argv);
int vm_free(int argc, char **argv);

/* describe/: the same. */
int cli_vm_init(char **argv);
int cli_vm_xml(int argc, char **argv);

/* Tries it in a child process, and leaves nothing behind. Prints no message. */
bool vm_share_try(bool unprivileged, struct vm_share *share);

/* A new directory below TMPDIR; false with errno set. */
bool vm_directory_make(char directory[VM_DIRECTORY]);

/* All print a message when they return false. */
bool vm_prepare(const struct vm_options *options, struct vm_parts *parts);
int vm_program_archive(const struct vm_parts *parts, const struct vm_options *options, const char *end_tag);
/* The program is on this machine, whose files the VM sees: 0, or the exit status of env(1) that says what is wrong. */
int vm_program_check(const char *name);
bool vm_start_daemon(struct vm *vm);
bool vm_start_share(struct vm *vm);
bool vm_start_qemu(struct vm *vm);

/* The log of a process, or the guest's kernel log where process is VM_PROCESSES. */
void vm_log_path(const struct vm *vm, enum vm_process process, char *path, size_t size);
void vm_stop(struct vm *vm, enum vm_process process, unsigned int grace_ms);
void vm_describe_status(int status, char *text, size_t size);
bool vm_uses_kvm(void);

/* False when the stream has ended: the end tag was seen, or the peer is gone. */
bool vm_stream_pump(struct vm_stream *stream);

/* The input's and the port's events of poll(2) that vm_input_pump() waits for; 0: none. */
short vm_input_events(const struct vm_input *input);
short vm_input_port_events(const struct vm_input *input);
/* Call it when poll(2) has told one of these events. The port gets end-of-file after the input's last byte. */
void vm_input_pump(struct vm_input *input, short input_events);

/* Standard input is a terminal that does not stop this process for reading, as it would in the background. */
bool vm_terminal_is_ours(void);
bool vm_terminal_size(unsigned short *rows, unsigned short *columns);
/* Raw mode, until vm_terminal_leave(), or anew after another program has changed it. */
bool vm_terminal_enter(void);
void vm_terminal_leave(void);

/* Ends the terminal's raw mode. */
void vm_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
