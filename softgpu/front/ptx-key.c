/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What machine code depends on, as a key: the compiler (this library's and LLVM's build, the processor), the PTX text,
 * the kernel, the block shape and which version of the kernel it is. Addresses are not among it: code that is kept
 * holds none.
 */
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <nettle/sha2.h>

#include "common/log.h"
#include "front/ptx-key.h"

/* Changes when the key's own composition does. */
#define KEY_FORMAT 1

struct build_search {
	uintptr_t address;
	struct sha256_ctx *sha;
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
			sha256_update(search->sha, note->n_descsz, (const uint8_t *)words + name);
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
static bool add_build(struct sha256_ctx *sha, uintptr_t function)
{
	struct build_search search = {.address = function, .sha = sha};

	dl_iterate_phdr(find_build, &search);
	return search.found;
}

static void add_text(struct sha256_ctx *sha, const char *text)
{
	uint64_t length = strlen(text);

	sha256_update(sha, sizeof(length), (const uint8_t *)&length);
	sha256_update(sha, length, (const uint8_t *)text);
}

static struct vcuda_cache_key compiler;
static bool compiler_known;

static void find_compiler(void)
{
	char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
	unsigned version[3];
	struct sha256_ctx sha;

	sha256_init(&sha);
	compiler_known = add_build(&sha, (uintptr_t)find_compiler) && add_build(&sha, (uintptr_t)LLVMContextCreate);
	LLVMGetVersion(&version[0], &version[1], &version[2]);
	sha256_update(&sha, sizeof(version), (const uint8_t *)version);
	add_text(&sha, cpu);
	add_text(&sha, features);
	sha256_digest(&sha, sizeof(compiler.bytes), compiler.bytes);
	LLVMDisposeMessage(features);
	LLVMDisposeMessage(cpu);
	if (!compiler_known)
		vcuda_log("compiled kernels are not kept: this build of the compiler has no id");
}

void ptx_key_texts(const struct ptx_text *texts, size_t count, struct vcuda_cache_key *key)
{
	struct sha256_ctx sha;

	sha256_init(&sha);
	for (size_t n = 0; n < count; n++) {
		uint64_t length = texts[n].length;

		sha256_update(&sha, sizeof(length), (const uint8_t *)&length);
		sha256_update(&sha, length, (const uint8_t *)texts[n].text);
	}
	sha256_digest(&sha, sizeof(key->bytes), key->bytes);
}

void ptx_key_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_compiler);
}

bool ptx_key_facts(const struct vcuda_cache_key *text, struct vcuda_cache_key *key)
{
	struct sha256_ctx sha;

	ptx_key_start();
	sha256_init(&sha);
	sha256_update(&sha, sizeof(compiler.bytes), compiler.bytes);
	add_text(&sha, "facts");
	sha256_update(&sha, sizeof(*text), text->bytes);
	sha256_digest(&sha, sizeof(key->bytes), key->bytes);
	return compiler_known;
}

bool ptx_key_version(const struct ptx_kernel *kernel, const uint32_t blockdim[3], struct ptx_version version,
		     struct vcuda_cache_key *key)
{
	uint32_t numbers[] = {KEY_FORMAT,     blockdim[0],   blockdim[1],    blockdim[2],
			      version.masked, version.quick, version.checked};
	struct sha256_ctx sha;

	ptx_key_start();
	sha256_init(&sha);
	sha256_update(&sha, sizeof(compiler.bytes), compiler.bytes);
	sha256_update(&sha, sizeof(numbers), (const uint8_t *)numbers);
	sha256_update(&sha, sizeof(struct vcuda_cache_key), kernel->function->module->text.bytes);
	add_text(&sha, kernel->info.name);
	sha256_digest(&sha, sizeof(key->bytes), key->bytes);
	return compiler_known;
}
