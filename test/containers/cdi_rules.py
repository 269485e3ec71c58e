# SPDX-License-Identifier: Apache-2.0
"""The rules of the Container Device Interface 0.5.0 for a specification, as far as engines refuse what breaks them."""

import re

VENDOR_CLASS = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "0.5.0"]
HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}


class Broken(Exception):
    pass


def demand(condition, text):
    if not condition:
        raise Broken(text)


def members(where, value, required, optional):
    """`value` is an object with these members and no other. Each is a pair of name and type."""
    demand(isinstance(value, dict), f"{where} is no object")
    kinds = {**required, **optional}
    for name, kind in required.items():
        demand(name in value, f"{where} has no {name}")
    for name in value:
        demand(name in kinds, f"{where} has {name}, which CDI does not know")
        demand(isinstance(value[name], kinds[name]), f"{where}.{name} has the wrong type")


def texts(where, values):
    for value in values:
        demand(isinstance(value, str) and value, f"{where} has {value!r}")


def check_edits(where, edits):
    members(where, edits, {}, {"env": list, "deviceNodes": list, "mounts": list, "hooks": list})
    demand(any(edits.values()), f"{where} is empty")
    texts(f"{where}.env", edits.get("env", []))
    for variable in edits.get("env", []):
        demand(re.match(r"[^=]+=", variable), f"{where}.env has {variable!r}")
    for mount in edits.get("mounts", []):
        members(f"{where}.mounts", mount, {"hostPath": str, "containerPath": str}, {"options": list, "type": str})
        texts(f"{where}.mounts.options", mount.get("options", []))
        for name in ("hostPath", "containerPath"):
            demand(mount[name].startswith("/"), f"{where}.mounts: {name} {mount[name]!r} is not absolute")
    for node in edits.get("deviceNodes", []):
        members(f"{where}.deviceNodes", node, {"path": str}, {"hostPath": str, "type": str, "major": int, "minor": int, "fileMode": int,
                                                             "permissions": str, "uid": int, "gid": int})
    for hook in edits.get("hooks", []):
        members(f"{where}.hooks", hook, {"hookName": str, "path": str}, {"args": list, "env": list, "timeout": int})
        demand(hook["hookName"] in HOOKS and hook["path"].startswith("/"), f"{where}.hooks: {hook}")


def check(specification):
    """Raises Broken for what an engine would refuse."""
    members("the specification", specification, {"cdiVersion": str, "kind": str, "devices": list}, {"containerEdits": dict})
    version = specification["cdiVersion"]
    demand(version in VERSIONS, f"cdiVersion {version!r}")
    demand(VENDOR_CLASS.fullmatch(specification["kind"]), f"kind {specification['kind']!r}")
    demand(specification["devices"], "there is no device")
    names = []
    for device in specification["devices"]:
        members("a device", device, {"name": str, "containerEdits": dict}, {})
        demand(DEVICE.fullmatch(device["name"]), f"the device's name {device['name']!r}")
        demand(not device["name"][0].isdigit() or version >= "0.5.0", f"the device's name {device['name']!r} needs cdiVersion 0.5.0")
        check_edits(f"device {device['name']}", device["containerEdits"])
        names.append(device["name"])
    demand(len(set(names)) == len(names), f"a name is there twice: {names}")
    if "containerEdits" in specification:
        check_edits("containerEdits", specification["containerEdits"])
