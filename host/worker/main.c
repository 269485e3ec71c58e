/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vcuda-worker. The program is linked to an address where no guest process has memory (meson.build), the same in each
 * worker. Its code is in a library, which the loader puts to a random address (protocol/ipc/layout.h).
 */
#include "worker-main.h"

int main(int argc, char **argv)
{
	return vcuda_worker_main(argc, argv);
}
