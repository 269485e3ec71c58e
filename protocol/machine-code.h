/* SPDX-License-Identifier: Apache-2.0 */
/* PTX that a program gets, and loads, in the place of machine code. */
#ifndef VCUDA_MACHINE_CODE_H
#define VCUDA_MACHINE_CODE_H

/* Begins such a text. Its .version may be newer than the driver, which would not have compiled it. */
#define VCUDA_FOR_MACHINE_CODE "/*for machine code*/"

#endif
