/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of machine code has all that the code depends on: the compiler (this library's and LLVM's build, the
 * processor), the kernel's content, the block shape and the version of the kernel. Code that is kept holds no addresses,
 * and no lines but from the kernel's first.
 */
#include <stdio.h>
#include <string.h>

#include <nettle/sha2.h>

#include "cache/ptx-compiler.h"
#include "front/ptx-key.h"

/* Changes when the key's own composition does. */
#define KEY_FORMAT 3

#define FACTS "facts"

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
	ptx_compiler();
}

/* Keys of one compiler begin alike. Returns whether the compiler knows its own build. */
static bool end(struct sha256_ctx *sha, struct vcuda_cache_key *key)
{
	const struct ptx_compiler *compiler = ptx_compiler();

	sha256_digest(sha, sizeof(key->bytes), key->bytes);
	memcpy(key->bytes, compiler->id, PTX_COMPILER_MARK_BYTES);
	return compiler->is_known;
}

bool ptx_key_facts(const struct vcuda_cache_key *text, struct vcuda_cache_key *key)
{
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, sizeof(ptx_compiler()->id), ptx_compiler()->id);
	sha256_update(&sha, sizeof(FACTS), (const uint8_t *)FACTS);
	sha256_update(&sha, sizeof(*text), text->bytes);
	return end(&sha, key);
}

static void add_version(struct sha256_ctx *sha, const struct ptx_kernel *kernel, const uint32_t blockdim[3],
			struct ptx_version version)
{
	uint32_t numbers[] = {KEY_FORMAT,      blockdim[0],    blockdim[1],       blockdim[2],       version.masked,
			      version.quick, version.checked, version.scalar, version.standalone};

	sha256_update(sha, sizeof(numbers), (const uint8_t *)numbers);
	sha256_update(sha, sizeof(kernel->content.bytes), kernel->content.bytes);
}

bool ptx_key_version(const struct ptx_kernel *kernel, const uint32_t blockdim[3], struct ptx_version version,
		     struct vcuda_cache_key *key)
{
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, sizeof(ptx_compiler()->id), ptx_compiler()->id);
	add_version(&sha, kernel, blockdim, version);
	return end(&sha, key);
}

void ptx_key_name(const struct ptx_kernel *kernel, const uint32_t blockdim[3], struct ptx_version version,
		  char name[PTX_NAME_BYTES])
{
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;

	sha256_init(&sha);
	add_version(&sha, kernel, blockdim, version);
	sha256_digest(&sha, sizeof(sum), sum);
	strcpy(name, "ptx_");
	for (unsigned n = 0; n < 16; n++)
		snprintf(name + 4 + 2 * n, 3, "%02x", sum[n]);
}
