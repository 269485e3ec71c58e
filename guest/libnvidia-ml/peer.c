/* SPDX-License-Identifier: Apache-2.0 */
/* Links between the guest's devices. */
#include "nvml.h"

NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, unsigned int capability,
						unsigned int *status)
{
	int from, to, all[NVML_P2P_CAPABILITIES];
	nvmlReturn_t result = nvml_require_device(device, &from);

	if (result == NVML_SUCCESS)
		result = nvml_require_device(peer, &to);
	if (result != NVML_SUCCESS)
		return result;
	if (!status || capability >= NVML_P2P_CAPABILITIES)
		return NVML_ERROR_INVALID_ARGUMENT;
	result = nvml_error_of(nvml_client_peer_status(from, to, all));
	if (result == NVML_SUCCESS)
		*status = (unsigned int)all[capability];
	return result;
}
