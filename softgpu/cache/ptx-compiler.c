/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/ptx-compiler.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <nettle/sha2.h>

#include "common/log.h"

/* Messages have the first bytes of a build id. */
#define TEXT_ID_BYTES 4

static struct ptx_compiler compiler;

struct build_search {
	uintptr_t address;
	struct sha256_ctx *sha;
	const uint8_t *id; /* the build id */
	size_t id_bytes;
	bool found;
};

static bool note_build(struct build_search *search, const char *notes, size_t size)
{
	while (size >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)notes;
		size_t name = (note->n_namesz + 3ul) & ~3ul, text = (note->n_descsz + 3ul) & ~3ul;
		const char *words = notes + sizeof(*note);

		if (name > size || text > size || sizeof(*note) + name + text > size)
			return false;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(words, "GNU", 4)) {
			search->id = (const uint8_t *)words + name;
			search->id_bytes = note->n_descsz;
			sha256_update(search->sha, search->id_bytes, search->id);
			return true;
		}
		notes += sizeof(*note) + name + text;
		size -= sizeof(*note) + name + text;
	}
	return false;
}

static int find_build(struct dl_phdr_info *info, size_t size, void *data)
{
	struct build_search *search = data;
	bool inside = false;

	(void)size;
	for (unsigned n = 0; n < info->dlpi_phnum; n++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[n];

		inside |= p->p_type == PT_LOAD && search->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz;
	}
	for (unsigned n = 0; inside && !search->found && n < info->dlpi_phnum; n++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[n];

		if (p->p_type == PT_NOTE)
			search->found = note_build(search, (const char *)(info->dlpi_addr + p->p_vaddr), p->p_memsz);
	}
	return inside;
}

/* The build id of the program or library that has a function. */
static bool add_build(struct sha256_ctx *sha, uintptr_t function, char text[2 * TEXT_ID_BYTES + 1])
{
	struct build_search search = {.address = function, .sha = sha};

	dl_iterate_phdr(find_build, &search);
	for (size_t n = 0; n < TEXT_ID_BYTES && n < search.id_bytes; n++)
		snprintf(text + 2 * n, 3, "%02x", search.id[n]);
	return search.found;
}

static void add_text(struct sha256_ctx *sha, const char *text)
{
	uint64_t length = strlen(text);

	sha256_update(sha, sizeof(length), (const uint8_t *)&length);
	sha256_update(sha, length, (const uint8_t *)text);
}

static void find_compiler(void)
{
	char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
	char own[2 * TEXT_ID_BYTES + 1] = "", theirs[2 * TEXT_ID_BYTES + 1] = "";
	unsigned version[3];
	struct sha256_ctx sha;

	sha256_init(&sha);
	compiler.is_known =
		add_build(&sha, (uintptr_t)find_compiler, own) && add_build(&sha, (uintptr_t)LLVMContextCreate, theirs);
	LLVMGetVersion(&version[0], &version[1], &version[2]);
	sha256_update(&sha, sizeof(version), (const uint8_t *)version);
	add_text(&sha, cpu);
	add_text(&sha, features);
	sha256_digest(&sha, sizeof(compiler.id), compiler.id);
	snprintf(compiler.text, sizeof(compiler.text), "build %s, LLVM %u.%u.%u (build %s), processor %s %02x%02x", own,
		 version[0], version[1], version[2], theirs, cpu, compiler.id[0], compiler.id[1]);
	LLVMDisposeMessage(features);
	LLVMDisposeMessage(cpu);
	if (!compiler.is_known)
		vcuda_log("compiled kernels are not kept: this build of the compiler has no id");
}

const struct ptx_compiler *ptx_compiler(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_compiler);
	return &compiler;
}
