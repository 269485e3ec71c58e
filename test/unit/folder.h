/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that a test may fill: made and removed by cmocka's fixtures. */
#ifndef TEST_UNIT_FOLDER_H
#define TEST_UNIT_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/vcuda-test-XXXXXX");
	return !mkdtemp(folder);
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

#endif
