/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a toolkit's libcudart.so.13 that a program's rpath names. */
int cudaRuntimeGetVersion(int *version);

int cudaRuntimeGetVersion(int *version)
{
	*version = -1;
	return 0;
}
