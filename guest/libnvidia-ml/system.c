/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "guest/client/driver-version.h"
#include "nvml.h"
#include "protocol/cuda-newest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned int users;

nvmlReturn_t nvml_error_of(int err)
{
	switch (err) {
	case 0:
		return NVML_SUCCESS;
	case -ENOENT:
	case -ENODEV:
		return NVML_ERROR_DRIVER_NOT_LOADED;
	case -EACCES:
	case -EPERM:
		return NVML_ERROR_NO_PERMISSION;
	case -EPROTONOSUPPORT:
		return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	case -ENOSYS:
		return NVML_ERROR_NOT_SUPPORTED;
	case -ENOMEM:
		return NVML_ERROR_MEMORY;
	case -EPIPE:
		return NVML_ERROR_GPU_IS_LOST;
	case -ETIMEDOUT:
		return NVML_ERROR_TIMEOUT;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}

nvmlReturn_t nvml_require_init(void)
{
	return users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

int nvml_refuse(const char *name, atomic_flag *said)
{
	if (!users)
		return NVML_ERROR_UNINITIALIZED;
	if (!atomic_flag_test_and_set(said))
		vcuda_log_debug("%s is not supported", name);
	return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvml_put_text(char *to, unsigned int room, const char *text)
{
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, text);
	return NVML_SUCCESS;
}

/* ---- begin and end ---- */

/* In a forked child, whose parent's thread may have been in nvmlInit(). */
static void forget_lock(void)
{
	pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void observe_forks(void)
{
	pthread_atfork(NULL, NULL, forget_lock);
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	int err;

	pthread_mutex_lock(&lock);
	err = users ? 0 : nvml_client_open();
	if (!err)
		users++;
	pthread_mutex_unlock(&lock);
	return nvml_error_of(err);
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!users)
		result = NVML_ERROR_UNINITIALIZED;
	else if (--users == 0)
		nvml_client_close();
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- versions ---- */

/* The host of a software GPU has no driver: the version of virtio-cuda replaces the driver's. */
static const char *driver_version(void)
{
	const char *driver = nvml_client_host()->system.driver_version;

	return *driver ? driver : VCUDA_VERSION;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	nvmlReturn_t result = nvml_require_init();

	return result == NVML_SUCCESS ? nvml_put_text(version, length, driver_version()) : result;
}

/* As the real library: the version of CUDA, then the driver's. */
NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	nvmlReturn_t result = nvml_require_init();
	char text[96];

	snprintf(text, sizeof(text), "%d.%s", VCUDA_NEWEST_CUDA / 1000, driver_version());
	return result == NVML_SUCCESS ? nvml_put_text(version, length, text) : result;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	nvmlReturn_t result = nvml_require_init();

	if (result != NVML_SUCCESS)
		return result;
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = client_driver_version(VCUDA_NEWEST_CUDA, nvml_client_host()->driver_version);
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

/* ---- names of errors: also before nvmlInit ---- */

static const struct {
	nvmlReturn_t code;
	const char *text;
} errors[] = {
	{NVML_SUCCESS, "Success"},
	{NVML_ERROR_UNINITIALIZED, "Uninitialized"},
	{NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
	{NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
	{NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
	{NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized"},
	{NVML_ERROR_NOT_FOUND, "Not Found"},
	{NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
	{NVML_ERROR_INSUFFICIENT_POWER, "Insufficient External Power"},
	{NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
	{NVML_ERROR_TIMEOUT, "Timeout"},
	{NVML_ERROR_IRQ_ISSUE, "Interrupt Request Issue"},
	{NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"},
	{NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
	{NVML_ERROR_CORRUPTED_INFOROM, "Corrupted infoROM"},
	{NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
	{NVML_ERROR_RESET_REQUIRED, "GPU requires reset"},
	{NVML_ERROR_OPERATING_SYSTEM, "The operating system has blocked the request"},
	{NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
	{NVML_ERROR_IN_USE, "In use by another client"},
	{NVML_ERROR_MEMORY, "Insufficient Memory"},
	{NVML_ERROR_NO_DATA, "No data"},
	{NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, "ECC is not possible with vGPUs"},
	{NVML_ERROR_INSUFFICIENT_RESOURCES, "Insufficient Resources"},
	{NVML_ERROR_FREQ_NOT_SUPPORTED, "Frequency not supported"},
	{NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
	{NVML_ERROR_DEPRECATED, "Deprecated"},
	{NVML_ERROR_NOT_READY, "Not Ready"},
	{NVML_ERROR_GPU_NOT_FOUND, "GPU Not Found"},
	{NVML_ERROR_INVALID_STATE, "Invalid State"},
	{NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, "Reset type not supported"},
};

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == result)
			return errors[i].text;
	return "Unknown Error";
}

/* The worker finds this symbol if it has loaded the guest's library in place of the host's. */
NVML_EXPORT const char nvmlVcudaGuestLibrary[] = VCUDA_VERSION;
