/* SPDX-License-Identifier: Apache-2.0 */
#include "core/node.h"

#include <stdio.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node"

static bool has_nodes(void)
{
	return !access(NODES, F_OK);
}

static bool has_node(int node)
{
	char path[64];

	if (node < 0 || node >= LIBCUDA_NODES)
		return false;
	snprintf(path, sizeof(path), NODES "/node%d", node);
	return !access(path, F_OK);
}

bool libcuda_node_is_here(int node)
{
	return has_node(node) || (node == 0 && !has_nodes());
}

int libcuda_node_near(int wanted)
{
	if (has_node(wanted))
		return wanted;
	for (int node = 0; has_nodes() && node < LIBCUDA_NODES; node++)
		if (has_node(node))
			return node;
	return -1;
}
