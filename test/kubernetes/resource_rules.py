# SPDX-License-Identifier: Apache-2.0
"""The API server's rules for a ResourceSlice of resource.k8s.io/v1.

Members and types are those of api/openapi-spec/v3/apis__resource.k8s.io__v1_openapi.json and of
staging/src/k8s.io/api/resource/v1/generated.proto (0820f25717a30cc0f9df1a730fc77df641b5080f), limits those of
pkg/apis/resource/validation/validation.go (009801d930e2e3c8b3671a3ec28e31a2f64865ac), all of github.com/kubernetes/kubernetes.
Only what virtio-cuda uses is there; everything else is refused.
"""

import decimal
import re

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]i|[numkMGTPE]?)")


class Broken(Exception):
    pass


def demand(condition, text):
    if not condition:
        raise Broken(text)


def members(where, value, required, optional=None):
    """`value` is an object with these members and no other. Each is a pair of name and type."""
    demand(isinstance(value, dict), f"{where} is no object")
    kinds = {**required, **(optional or {})}
    for name in required:
        demand(name in value, f"{where} has no {name}")
    for name, member in value.items():
        demand(name in kinds, f"{where} has {name}, which the schema does not know")
        demand(isinstance(member, kinds[name]) and (kinds[name] is bool or not isinstance(member, bool)), f"{where}.{name} has the wrong type")


def matches(where, pattern, text, longest):
    demand(isinstance(text, str) and len(text) <= longest and pattern.fullmatch(text), f"{where} is {text!r}")


def amount(where, text):
    match = QUANTITY.fullmatch(text)
    demand(match, f"{where}: {text!r} is no quantity")
    suffix = match[2]
    power = " KMGTPE".index(suffix[0].upper()) if suffix and suffix not in "num" else 0
    base = 1024 if suffix.endswith("i") else 1000
    return decimal.Decimal(match[1]) * (base ** power if suffix not in ("n", "u", "m") else decimal.Decimal(1000) ** -("mun".index(suffix) + 1))


def qualified(where, name):
    domain, slash, last = name.rpartition("/")
    demand("/" not in domain, f"{where}: {name!r}")
    if slash:
        matches(where, SUBDOMAIN, domain, 63)
    matches(where, IDENTIFIER, last, 32)


def check_attribute(where, attribute):
    members(where, attribute, {}, {"int": int, "bool": bool, "string": str, "version": str})
    demand(len(attribute) == 1, f"{where} has {len(attribute)} values")
    for name in ("string", "version"):
        demand(len(attribute.get(name, "").encode()) <= 64, f"{where} is too long")
    demand("version" not in attribute or VERSION.fullmatch(attribute["version"]), f"{where} is no semantic version")


def check_capacity(where, capacity, shared):
    members(where, capacity, {"value": str}, {"requestPolicy": dict})
    value = amount(f"{where}.value", capacity["value"])
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    demand(shared, f"{where}.requestPolicy needs allowMultipleAllocations")
    members(f"{where}.requestPolicy", policy, {}, {"default": str, "validRange": dict})
    if "validRange" not in policy:
        return
    demand("default" in policy, f"{where}.requestPolicy has no default")
    members(f"{where}.validRange", policy["validRange"], {"min": str}, {"max": str, "step": str})
    bounds = {name: amount(f"{where}.validRange.{name}", text) for name, text in policy["validRange"].items()}
    default = amount(f"{where}.default", policy["default"])
    most = bounds.get("max", value)
    demand(bounds["min"] <= default <= most <= value, f"{where}: min {bounds['min']}, default {default}, max {most}, value {value}")
    if "step" in bounds:
        demand(bounds["step"] > 0 and bounds["min"] + bounds["step"] <= value, f"{where}: step {bounds['step']}")
        for number in (default, *([most] if "max" in bounds else [])):
            demand((number - bounds["min"]) % bounds["step"] == 0, f"{where}: {number} is no step")


def check_device(device):
    members("a device", device, {"name": str}, {"attributes": dict, "capacity": dict, "allowMultipleAllocations": bool})
    matches("a device's name", LABEL, device["name"], 63)
    attributes, capacities = device.get("attributes", {}), device.get("capacity", {})
    demand(len(attributes) + len(capacities) <= 32, f"{device['name']} has too many attributes and capacities")
    for name, attribute in attributes.items():
        qualified(f"{device['name']}.attributes", name)
        check_attribute(f"{device['name']}.{name}", attribute)
    for name, capacity in capacities.items():
        qualified(f"{device['name']}.capacity", name)
        check_capacity(f"{device['name']}.{name}", capacity, device.get("allowMultipleAllocations", False))


def check_slice(item):
    """Raises Broken for what the API server would refuse."""
    members("the slice", item, {"apiVersion": str, "kind": str, "metadata": dict, "spec": dict})
    demand((item["apiVersion"], item["kind"]) == ("resource.k8s.io/v1", "ResourceSlice"), f"{item['apiVersion']} {item['kind']}")
    members("metadata", item["metadata"], {"name": str}, {"ownerReferences": list, "resourceVersion": str})
    matches("metadata.name", SUBDOMAIN, item["metadata"]["name"], 253)
    for owner in item["metadata"].get("ownerReferences", []):
        members("an owner", owner, {"apiVersion": str, "kind": str, "name": str, "uid": str}, {"controller": bool, "blockOwnerDeletion": bool})
        demand(owner["uid"] and owner["name"], f"the owner {owner}")
    spec = item["spec"]
    members("spec", spec, {"driver": str, "pool": dict}, {"nodeName": str, "devices": list})
    matches("spec.driver", SUBDOMAIN, spec["driver"], 63)
    demand(spec.get("nodeName"), "spec has no nodeName, and nothing in its place")
    matches("spec.nodeName", SUBDOMAIN, spec["nodeName"], 253)
    members("spec.pool", spec["pool"], {"name": str, "generation": int, "resourceSliceCount": int})
    for part in spec["pool"]["name"].split("/"):
        matches("spec.pool.name", SUBDOMAIN, part, 253)
    demand(spec["pool"]["resourceSliceCount"] > 0 and spec["pool"]["generation"] >= 0, f"spec.pool {spec['pool']}")
    demand(len(spec.get("devices", [])) <= 128, "spec has more than 128 devices")
    for device in spec.get("devices", []):
        check_device(device)
    names = [device["name"] for device in spec.get("devices", [])]
    demand(len(set(names)) == len(names), f"a device is there twice: {names}")
