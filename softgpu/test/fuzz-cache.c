/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile files in the software GPU's cache. Machine code is executed, so that who writes it is trusted; what is fuzzed
 * is the form of all entries, and facts about texts that are whole but untrue.
 *
 * Input: a byte that says which, then the file or the facts.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu/cache/ptx-cache.h"
#include "softgpu/front/ptx-key.h"
#include "softgpu/jit/ptx-compile.h"
#include "test/fuzz/fuzz.h"

#define NAME_BYTES (2 * VCUDA_CACHE_KEY_BYTES)

static const char sample[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".func (.param .b32 r) twice(.param .b32 n)\n{\n.local .align 4 .b8 own[16];\n.reg .b32 %r<3>;\n"
	"ld.param.u32 %r1, [n];\nadd.u32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n"
	".visible .entry first(.param .u64 p)\n{\n.shared .align 4 .b8 tile[64];\n"
	".reg .b32 %r<3>; .reg .b64 %d<2>;\nld.param.u64 %d1, [p];\nmov.u32 %r1, %tid.x;\n"
	"{\n.param .b32 v;\n.param .b32 w;\nst.param.b32 [v], %r1;\ncall (w), twice, (v);\n"
	"ld.param.b32 %r2, [w];\n}\nst.global.u32 [%d1], %r2;\nret;\n}\n"
	".visible .entry second()\n{\nret;\n}\n";

static char folder[] = "/tmp/fuzz-cache-XXXXXX";
static struct vcuda_cache_key text_key, facts_key;

static void remove_folder(void)
{
	char command[sizeof(folder) + 16];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command))
		perror(command);
}

/* Makes the folder and the keys at its first call. */
static void set_up(void)
{
	static bool done;
	const struct ptx_text text = {sample, sizeof(sample) - 1};

	if (done)
		return;
	done = true;
	if (!mkdtemp(folder) || atexit(remove_folder))
		abort();
	setenv("VCUDA_CACHE", folder, 1);
	ptx_key_start();
	ptx_key_texts(&text, 1, &text_key);
	if (!ptx_cache_default() || !ptx_key_facts(&text_key, &facts_key))
		abort();
}

/* Reads the text with what the cache says of it; each kernel is what it is, or has an error that says so. */
static void read_text(void)
{
	static const uint32_t block[3] = {32, 1, 1};
	struct ptx_module *m;
	struct ptx_error error;

	if (ptx_module_create(sample, sizeof(sample) - 1, &m, &error) != PTX_OK)
		abort();
	for (size_t k = 0; k < ptx_module_kernels(m); k++) {
		struct ptx_plan *plan;

		memset(&error, 0, sizeof(error));
		if (ptx_plan_create(ptx_module_kernel(m, k), block, NULL, &plan, &error) == PTX_OK)
			ptx_plan_destroy(plan);
		else if (!error.text[0])
			abort();
	}
	ptx_module_destroy(m);
}

/* Stores a file with any contents under the key of the facts. */
static void load_file(const uint8_t *data, size_t bytes)
{
	char path[sizeof(folder) + 64 + NAME_BYTES], *name = path + snprintf(path, sizeof(path), "%s/kernels/", folder);
	size_t size = 0;
	void *loaded;
	int fd;

	for (unsigned int i = 0; i < VCUDA_CACHE_KEY_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", facts_key.bytes[i]);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	close(fd);
	loaded = vcuda_cache_load(ptx_cache_default(), &facts_key, &size);
	if (loaded && size >= bytes)
		abort();
	free(loaded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	set_up();
	if (!bytes)
		return 0;
	if (data[0] & 1)
		load_file(data + 1, bytes - 1);
	else
		vcuda_cache_store(ptx_cache_default(), &facts_key, data + 1, bytes - 1);
	read_text();
	return 0;
}

/* An entry that the compiler itself writes. */
size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	void *facts;
	size_t size;

	set_up();
	vcuda_cache_forget(ptx_cache_default(), &facts_key);
	read_text();
	facts = vcuda_cache_load(ptx_cache_default(), &facts_key, &size);
	if (!facts || size + 1 > room)
		abort();
	buffer[0] = (uint8_t)(number & 1);
	memcpy(buffer + 1, facts, size);
	free(facts);
	return size + 1;
}
