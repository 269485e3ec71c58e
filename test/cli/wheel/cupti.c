/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVIDIA's libcupti.so.13 in a wheel. */
int cuptiGetVersion(unsigned int *version);

int cuptiGetVersion(unsigned int *version)
{
	*version = 4711;
	return 0;
}
