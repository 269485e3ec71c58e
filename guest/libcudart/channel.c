/* SPDX-License-Identifier: Apache-2.0 */
/* Channel descriptors: arithmetic only, whatever becomes of the array that they describe. */
#include "runtime.h"

CUDART_API struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
							      enum cudaChannelFormatKind kind)
{
	return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}
