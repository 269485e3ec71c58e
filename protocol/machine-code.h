/* SPDX-License-Identifier: Apache-2.0 */
/* The mark of PTX that a program gets, and loads, in place of machine code. */
#ifndef VCUDA_MACHINE_CODE_H
#define VCUDA_MACHINE_CODE_H

/* Such PTX begins with this. The .version may be newer than the driver, which would not compile machine code. */
#define VCUDA_FOR_MACHINE_CODE "/*for machine code*/"

#endif
