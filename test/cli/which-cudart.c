/* SPDX-License-Identifier: Apache-2.0 */
/* Exit status 0: the runtime library is ours; 1: it is the one that this program's rpath names. */
int cudaRuntimeGetVersion(int *version);

int main(void)
{
	int version = 0;

	return cudaRuntimeGetVersion(&version) || version < 0;
}
