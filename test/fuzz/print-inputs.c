/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzz target that prints its inputs, for test-seed.sh. */
#include "fuzz.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		printf("%02x", data[i]);
	printf("\n");
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	(void)number;
	(void)buffer;
	(void)room;
	return 0;
}
