#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests: they fit together, and the programs take what is in them. test-manifests.py"""

import pathlib
import shutil
import subprocess
import sys

from programs import DEPLOY, PROGRAM, SOURCE, check, need_packages

need_packages()
import yaml  # pylint: disable=wrong-import-position
from vcuda_kube import dra, gpus, quantity  # pylint: disable=wrong-import-position

HOOKS = SOURCE / "integrations/kubevirt"


def documents(path):
    with open(path, encoding="utf-8") as file:
        found = [document for document in yaml.safe_load_all(file) if document]
    check(found, f"{path} is empty")
    for document in found:
        check(document.get("apiVersion") and document.get("kind"), f"{path}: {document}")
    return found


def of_kind(found, kind):
    (document,) = [document for document in found if document["kind"] == kind]
    return document


def merged(base, patch):
    """As kustomize does it for lists whose elements have a name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {key: merged(base[key], patch[key]) if key in base and key in patch else patch.get(key, base.get(key)) for key in {**base, **patch}}
    if isinstance(base, list) and isinstance(patch, list) and base and isinstance(base[0], dict):
        keys = "mountPath" if "mountPath" in base[0] else "name"
        names = {element[keys]: element for element in base}
        for element in patch:
            names[element[keys]] = merged(names.get(element[keys], {}), element)
        return list(names.values())
    return patch


def check_daemonset(daemonset, mode):
    spec = daemonset["spec"]["template"]["spec"]
    check(daemonset["spec"]["selector"]["matchLabels"].items() <= daemonset["spec"]["template"]["metadata"]["labels"].items(), daemonset)
    check(daemonset["spec"]["updateStrategy"] == {"type": "OnDelete"}, "another image ends all programs with a GPU at once")
    volumes = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"]}
    for container in spec["initContainers"] + spec["containers"]:
        for mount in container["volumeMounts"]:
            # Paths in CDI files and of sockets are the node's, so they must be the same here.
            check(volumes.get(mount["name"]) == mount["mountPath"], f"{mount} of {volumes}")
    (container,) = spec["containers"]
    check(container["command"][0].endswith("/share/virtio-cuda/kubernetes/vcuda-kube") and container["args"][0] == mode, container)
    check(int(container["args"][container["args"].index("--host-memory") + 1]) > 0, "the host memory of programs has no limit")
    r = subprocess.run([sys.executable, PROGRAM, *container["args"], "--help"], capture_output=True, text=True, check=False)
    check(r.returncode == 0, f"{container['args']}: {r.stderr}")
    command = spec["initContainers"][0]["command"]
    check(pathlib.Path(command[0]).name == "install-on-node" and (PROGRAM.parent / "install-on-node").exists() and command[2] in volumes.values(), command)
    return volumes


def check_kustomization(folder):
    """All named files exist, and no other manifest does; kustomize accepts the folder if it is installed."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    named = kustomization.get("resources", []) + [patch["path"] for patch in kustomization.get("patches", [])]
    for name in named + [file for generator in kustomization.get("configMapGenerator", []) for file in generator["files"]]:
        check((folder / name).exists(), f"{folder}: {name}")
    loose = {path.name for path in folder.glob("*.yaml")} - set(named) - {"kustomization.yaml", "example.yaml"}
    check(not loose, f"{folder}: {loose} are in no kustomization")
    for command in (["kustomize", "build"], ["kubectl", "kustomize"]):
        if shutil.which(command[0]):
            r = subprocess.run([*command, folder], capture_output=True, text=True, check=False)
            check(r.returncode == 0, f"{command} {folder}: {r.stderr}")
            return list(yaml.safe_load_all(r.stdout))
    print("kustomize is missing: the kustomizations were read, and not built")
    return None


def main():
    for path in [*DEPLOY.glob("**/*.yaml"), *HOOKS.glob("*.yaml")]:
        documents(path)
    check_kustomization(DEPLOY / "base")
    (base,) = documents(DEPLOY / "base/daemonset.yaml")
    for mode, needed in (("device-plugin", {"device-plugins", "pod-resources"}), ("dra", {"plugins", "plugins_registry"})):
        built = check_kustomization(DEPLOY / mode)
        daemonset = merged(base, documents(DEPLOY / mode / "daemonset.yaml")[0])
        for found in [daemonset, *([of_kind(built, "DaemonSet")] if built else [])]:
            volumes = check_daemonset(found, mode)
            check({f"/var/lib/kubelet/{name}" for name in needed} <= set(volumes.values()), volumes)
    rbac = documents(DEPLOY / "dra/rbac.yaml")
    account = daemonset["spec"]["template"]["spec"]["serviceAccountName"]
    check(of_kind(rbac, "ServiceAccount")["metadata"]["name"] == account == of_kind(rbac, "ClusterRoleBinding")["subjects"][0]["name"], rbac)
    check(of_kind(rbac, "ClusterRoleBinding")["roleRef"]["name"] == of_kind(rbac, "ClusterRole")["metadata"]["name"], rbac)
    # The class's parameters are known, and the claim's capacities are those of a device.
    (device_class,) = documents(DEPLOY / "dra/deviceclass.yaml")
    quotas = dra.quotas_of([{"source": "FromClass", **config} for config in device_class["spec"]["config"]], ["gpu"])
    check(quotas == {"max-contexts": "64"} and f'"{dra.DRIVER}"' in device_class["spec"]["selectors"][0]["cel"]["expression"], device_class)
    claim, pod = documents(DEPLOY / "examples/claim.yaml")
    (request,) = claim["spec"]["spec"]["devices"]["requests"]
    wanted = request["exactly"]["capacity"]["requests"]
    check(request["exactly"]["deviceClassName"] == device_class["metadata"]["name"], request)
    check(wanted.keys() <= dra.describe(gpus.Gpu(0, "GPU-0", 1024, "", ""))["capacity"].keys() and all(map(quantity.parse, wanted.values())), wanted)
    check(pod["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == claim["metadata"]["name"], pod)
    check(of_kind(documents(DEPLOY / "examples/slice.yaml"), "Pod")["spec"]["containers"][0]["resources"]["limits"] == {"virtio-cuda/slice": "1"}, "slice.yaml")
    check_kubevirt()


def check_kubevirt():
    built = check_kustomization(HOOKS)
    hook = (HOOKS / "onDefineDomain").read_text()
    if built:
        check(built[0]["metadata"]["name"] == "virtio-cuda-hook" and built[0]["data"]["onDefineDomain"] == hook, built)
    (machine,) = documents(HOOKS / "example.yaml")
    template = machine["spec"]["template"]
    (sidecar,) = yaml.safe_load(template["metadata"]["annotations"]["hooks.kubevirt.io/hookSidecars"])
    check(sidecar["configMap"] == {"name": "virtio-cuda-hook", "key": "onDefineDomain", "hookPath": "/usr/bin/onDefineDomain"}, sidecar)
    check(template["spec"]["domain"]["resources"]["limits"] == {"virtio-cuda/vm-slice": "1"}, template)
    check(f'SOCKET = "{template["metadata"]["annotations"]["virtio-cuda/socket"]}"' in hook, template)


main()
