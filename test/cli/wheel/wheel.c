/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a library of PyTorch's wheel, which has a DT_RPATH to NVIDIA's libcupti. */
int cuptiGetVersion(unsigned int *version);
unsigned int wheel_cupti_version(void);

unsigned int wheel_cupti_version(void)
{
	unsigned int version = 0;

	return cuptiGetVersion(&version) ? 0 : version;
}
