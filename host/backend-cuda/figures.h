/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a device from NVIDIA's management library of the host. Results are nvmlReturn_t. Where that library is not
 * there, does not know the device, or lacks a function, they are VCUDA_FIGURE_NOT_SUPPORTED. Thread-safe.
 */
#ifndef VCUDA_CUDA_FIGURES_H
#define VCUDA_CUDA_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/figures.h"

/* Whether a figure, or a field of NVIDIA's, is one of the hardware, and says nothing of other users of the GPU. */
bool backend_figure_is_constant(unsigned int figure);
bool backend_field_is_constant(unsigned int field);

/* A figure below VCUDA_FIGURE_OF_HOST_COUNT; what it does not have of `arguments` and `values` is ignored, or 0. */
unsigned int backend_figure(const char *pci_bus_id, unsigned int figure,
			    const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS], uint64_t values[VCUDA_FIGURE_VALUES]);

/* values: a field's value, its type (nvmlValueType_t), and its time in us since 1970. */
unsigned int backend_field(const char *pci_bus_id, unsigned int field, unsigned int scope,
			   uint64_t values[VCUDA_FIGURE_VALUES]);

/* nvmlGpuTopologyLevel_t of two devices. */
unsigned int backend_common_ancestor(const char *pci_bus_id, const char *peer_bus_id, uint64_t *level);

/* The PCI address at the other end of a link. */
unsigned int backend_link_remote(const char *pci_bus_id, unsigned int link, char remote_bus_id[32]);

#endif
