/* SPDX-License-Identifier: Apache-2.0 */
#include "figures.h"

#include <stddef.h>
#include <string.h>

#include "nvml.h"

/* The types of NVIDIA's functions, by the values behind the device. */
enum shape { U32, U64, PAIR, FOUR, RATES, A_U32, AA_U32, AA_U64, AAA_U64 };
enum allowed { ALWAYS, ASKED };

static const struct {
	const char *function;
	enum shape shape;
	enum allowed allowed;
} figures[] = {
#define FIGURE(name, shape, function, allowed) {#function, shape, allowed},
	VCUDA_FIGURES(FIGURE)};

bool backend_figure_is_constant(unsigned int figure)
{
	return figure < VCUDA_FIGURE_OF_HOST_COUNT && figures[figure].allowed == ALWAYS;
}

/* By shapes. */
union function {
	void *symbol;
	int (*value)(void *device, void *value);
	int (*pair)(void *device, uint32_t *first, uint32_t *second);
	int (*four)(void *device, uint32_t *first, uint32_t *second, uint32_t *third, uint32_t *fourth);
	int (*one)(void *device, uint32_t a, void *value);
	int (*two)(void *device, uint32_t a, uint32_t b, void *value);
	int (*three)(void *device, uint32_t a, uint32_t b, uint32_t c, void *value);
};

static int call(union function f, enum shape shape, void *device, const uint32_t a[VCUDA_FIGURE_ARGUMENTS],
		uint32_t words[VCUDA_FIGURE_VALUES], uint64_t *number)
{
	switch (shape) {
	case U32:
	case RATES:
		return f.value(device, words);
	case U64:
		return f.value(device, number);
	case PAIR:
		return f.pair(device, &words[0], &words[1]);
	case FOUR:
		return f.four(device, &words[0], &words[1], &words[2], &words[3]);
	case A_U32:
		return f.one(device, a[0], words);
	case AA_U32:
		return f.two(device, a[0], a[1], words);
	case AA_U64:
		return f.two(device, a[0], a[1], number);
	case AAA_U64:
		return f.three(device, a[0], a[1], a[2], number);
	}
	return VCUDA_FIGURE_NOT_SUPPORTED;
}

unsigned int backend_figure(const char *pci_bus_id, unsigned int figure,
			    const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS], uint64_t values[VCUDA_FIGURE_VALUES])
{
	uint32_t words[VCUDA_FIGURE_VALUES] = {0};
	uint64_t number = 0;
	union function f;
	void *device;
	enum shape shape;
	int result;

	memset(values, 0, VCUDA_FIGURE_VALUES * sizeof(*values));
	if (figure >= VCUDA_FIGURE_OF_HOST_COUNT || !backend_nvml_device(pci_bus_id, &device))
		return VCUDA_FIGURE_NOT_SUPPORTED;
	f.symbol = backend_nvml_function(figures[figure].function);
	if (!f.symbol)
		return VCUDA_FIGURE_NOT_SUPPORTED;
	shape = figures[figure].shape;
	result = call(f, shape, device, arguments, words, &number);
	if (result)
		return (unsigned int)result;
	for (int i = 0; i < VCUDA_FIGURE_VALUES; i++)
		values[i] = words[i];
	if (shape == U64 || shape == AA_U64 || shape == AAA_U64)
		values[0] = number;
	return 0;
}

/* ---- fields ---- */

/* Modes, speeds, states and versions of links, and limits. */
static const struct {
	unsigned int first, last;
} constant_fields[] = {
	{2, 2},     /* the ECC mode after a reset */
	{84, 89},   /* speeds of links 0 to 5 */
	{91, 91},   /* the number of links */
	{132, 137}, /* speeds of links 6 to 11 */
	{147, 147}, /* links to switches */
	{164, 166}, /* a link's speed, state and version */
	{170, 172}, /* links between chips: how many, state, bandwidth */
	{184, 184}, /* MIG without a reset */
	{187, 189}, /* least, greatest and default limit of power */
	{193, 196}, /* limits of temperature */
	{199, 199}, /* MIG queries */
};

/* Power, temperature, energy, errors and replays: of the whole GPU. */
static const struct {
	unsigned int first, last;
} other_fields[] = {
	{3, 31},    /* errors of memory, retired pages */
	{74, 83},   /* time below full clocks, temperature of memory, energy */
	{92, 95},   /* pages to be retired, replays of PCIe */
	{142, 145}, /* remapped rows */
	{173, 183}, /* errors of PCIe */
	{185, 186}, /* power */
	{190, 192}, /* limits of power, energy */
	{269, 271}, /* time below full clocks */
};

bool backend_field_is_constant(unsigned int field)
{
	for (size_t i = 0; i < sizeof(constant_fields) / sizeof(constant_fields[0]); i++)
		if (field >= constant_fields[i].first && field <= constant_fields[i].last)
			return true;
	return false;
}

static bool is_known(unsigned int field)
{
	for (size_t i = 0; i < sizeof(other_fields) / sizeof(other_fields[0]); i++)
		if (field >= other_fields[i].first && field <= other_fields[i].last)
			return true;
	return backend_field_is_constant(field);
}

/* nvmlFieldValue_t. */
struct field_value {
	uint32_t field, scope;
	int64_t time_us, latency_us;
	uint32_t type;
	int result;
	uint64_t value;
};

unsigned int backend_field(const char *pci_bus_id, unsigned int field, unsigned int scope,
			   uint64_t values[VCUDA_FIGURE_VALUES])
{
	int (*get)(void *device, int count, struct field_value *values);
	struct field_value v = {.field = field, .scope = scope};
	void *device;
	int result;

	memset(values, 0, VCUDA_FIGURE_VALUES * sizeof(*values));
	*(void **)&get = backend_nvml_function("nvmlDeviceGetFieldValues");
	if (!is_known(field) || !get || !backend_nvml_device(pci_bus_id, &device))
		return VCUDA_FIGURE_NOT_SUPPORTED;
	result = get(device, 1, &v);
	if (result || v.result)
		return (unsigned int)(result ? result : v.result);
	values[0] = v.value;
	values[1] = v.type;
	values[2] = (uint64_t)v.time_us;
	return 0;
}

/* ---- what is between devices ---- */

unsigned int backend_common_ancestor(const char *pci_bus_id, const char *peer_bus_id, uint64_t *level)
{
	int (*get)(void *device, void *peer, uint32_t *level);
	uint32_t found = 0;
	void *device, *peer;
	int result;

	*level = 0;
	*(void **)&get = backend_nvml_function("nvmlDeviceGetTopologyCommonAncestor");
	if (!get || !backend_nvml_device(pci_bus_id, &device) || !backend_nvml_device(peer_bus_id, &peer))
		return VCUDA_FIGURE_NOT_SUPPORTED;
	result = get(device, peer, &found);
	*level = found;
	return (unsigned int)result;
}

/* nvmlPciInfo_t. */
struct pci_info {
	char legacy_id[16];
	uint32_t domain, bus, device, id, subsystem;
	char id_text[32];
};

unsigned int backend_link_remote(const char *pci_bus_id, unsigned int link, char remote_bus_id[32])
{
	int (*get)(void *device, uint32_t link, struct pci_info *remote);
	struct pci_info remote = {.legacy_id = ""};
	void *device;
	int result;

	*remote_bus_id = 0;
	*(void **)&get = backend_nvml_function("nvmlDeviceGetNvLinkRemotePciInfo_v2");
	if (!get || !backend_nvml_device(pci_bus_id, &device))
		return VCUDA_FIGURE_NOT_SUPPORTED;
	result = get(device, link, &remote);
	if (!result) {
		remote.id_text[sizeof(remote.id_text) - 1] = 0;
		strcpy(remote_bus_id, remote.id_text);
	}
	return (unsigned int)result;
}
