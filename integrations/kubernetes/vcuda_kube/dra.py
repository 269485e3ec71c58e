# SPDX-License-Identifier: Apache-2.0
"""The DRA driver: GPUs whose memory and share claims consume, and a vcudad for each claim (resource.k8s.io/v1)."""

import pathlib
import re
import time

from . import quantity
from .api import Api, ApiError, quote
from .daemon import Failure, log
from .messages import DRA as api
from .messages import PLUGIN_REGISTRATION as registration
from .plugin import Plugin, Server
from .units import NAME, Unit

DRIVER = "virtio-cuda"
GROUP = "/apis/resource.k8s.io/v1"
WHOLE_SHARE = 100
DEFAULT_SHARE = 10
MIB = 1 << 20
MAX_DEVICES = 128
RETRY_S = 10
# Parameters of a DeviceClass.
PARAMETERS = {"apiVersion": "virtio-cuda/v1", "kind": "Quotas"}
QUOTAS = ("max-contexts", "max-process-device-memory", "max-host-memory", "max-pinned", "max-streams", "max-handles", "max-exports", "max-kernel-time")
QUOTA_VALUE = re.compile("[0-9]{1,15}[KMG]?")


# ---- ResourceSlices ----

def describe(gpu):
    """A GPU as a device of a ResourceSlice."""
    memory = f"{gpu.memory_mib}Mi"
    return {
        "name": gpu.name,
        "attributes": {"uuid": {"string": gpu.uuid[:64]}, "index": {"int": gpu.index}, "productName": {"string": gpu.product[:64]},
                       "driverVersion": {"string": gpu.driver[:64]}},
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": {"value": memory, "requestPolicy": {"default": memory, "validRange": {"min": "1Mi", "step": "1Mi"}}},
            "share": {"value": str(WHOLE_SHARE), "requestPolicy": {"default": str(DEFAULT_SHARE), "validRange": {"min": "1", "step": "1"}}},
        },
    }


class Publisher:
    """The ResourceSlices of this node: as few as hold all devices, written again if they are changed or gone."""

    def __init__(self, server, node):
        self.server, self.node = server, node
        self.owner = None
        self.devices, self.written = None, {}

    def publish(self, gpus):
        if not self.owner:
            node = self.server.call("GET", f"/api/v1/nodes/{quote(self.node)}")
            self.owner = {"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": node["metadata"]["uid"], "controller": True}
        devices = [describe(gpu) for gpu in gpus]
        there = self._there()
        # The server writes quantities in its own form, and leaves out what it has no feature gate for.
        if devices == self.devices and self.written == {name: item["spec"] for name, item in there.items()}:
            return
        generation = max((item["spec"]["pool"]["generation"] for item in there.values()), default=0) + 1
        parts = [devices[i:i + MAX_DEVICES] for i in range(0, len(devices), MAX_DEVICES)] or [[]]
        written = {}
        for i, part in enumerate(parts):
            name = f"{self.node}-{DRIVER}-{i}"
            spec = {"driver": DRIVER, "nodeName": self.node, "devices": part,
                    "pool": {"name": self.node, "generation": generation, "resourceSliceCount": len(parts)}}
            metadata = {"name": name, "ownerReferences": [self.owner]}
            body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
            if name in there:
                metadata["resourceVersion"] = there[name]["metadata"]["resourceVersion"]
                answer = self.server.call("PUT", f"{GROUP}/resourceslices/{quote(name)}", body)
            else:
                answer = self.server.call("POST", f"{GROUP}/resourceslices", body)
            written[name] = answer["spec"]
        for name in there.keys() - written.keys():
            self.server.call("DELETE", f"{GROUP}/resourceslices/{quote(name)}")
        self.devices, self.written = devices, written
        log(f"published {len(devices)} devices in {len(parts)} ResourceSlices, generation {generation}")

    def _there(self):
        selector = quote(f"spec.driver={DRIVER},spec.nodeName={self.node}")
        answer = self.server.call("GET", f"{GROUP}/resourceslices?fieldSelector={selector}")
        return {item["metadata"]["name"]: item for item in answer.get("items") or []}


# ---- claims ----

def whole(consumed, name, unit, default, limit):
    """A consumed capacity as a number of units. Without the cluster's DRAConsumableCapacity the device is the claim's alone."""
    values = [value for key, value in consumed.items() if key in (name, f"{DRIVER}/{name}")]
    if not values:
        return default
    try:
        number = quantity.parse(values[0]) / unit
    except ValueError as error:
        raise Failure(f"the claim's {name} {error}") from error
    if number < 1 or number > limit:
        raise Failure(f"the claim has {values[0]} of the {name}: a device has from 1 to {limit}{' Mi' if unit == MIB else ''}")
    return int(number)


def quotas_of(configurations, requests):
    """vcudad's quotas that the classes of these requests set."""
    quotas = {}
    for configuration in configurations:
        opaque = configuration.get("opaque") or {}
        if opaque.get("driver") != DRIVER:
            continue
        named = set(configuration.get("requests") or [])
        if named and not any(named & {request, request.split("/")[0]} for request in requests):
            continue
        if configuration.get("source") != "FromClass":
            raise Failure("a claim cannot set parameters; its DeviceClass can")
        parameters = opaque.get("parameters")
        if not isinstance(parameters, dict) or any(parameters.get(key) != value for key, value in PARAMETERS.items()):
            raise Failure(f"parameters of the DeviceClass need apiVersion {PARAMETERS['apiVersion']} and kind {PARAMETERS['kind']}")
        for name, value in parameters.items():
            if name in PARAMETERS:
                continue
            if name not in QUOTAS:
                raise Failure(f"the DeviceClass has the parameter {name!r}; known are {', '.join(QUOTAS)}")
            if isinstance(value, bool) or not QUOTA_VALUE.fullmatch(str(value)):
                raise Failure(f"the DeviceClass has {name} {value!r}; a number may have K, M or G behind it")
            quotas[name] = str(value)
    return quotas


def unit_of(claim, pool, gpus):
    """The unit that an allocated claim describes. Raises Failure."""
    uid = claim["metadata"]["uid"]
    allocation = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    results = [result for result in allocation.get("results") or [] if result.get("driver") == DRIVER]
    if not results:
        raise Failure("the claim has no device of this driver")
    by_name = {gpu.name: gpu for gpu in gpus}
    parts, devices = {}, []
    for result in results:
        if result.get("pool") != pool or result.get("device") not in by_name:
            raise Failure(f"the claim has the device {result.get('pool')}/{result.get('device')}, which is not of this node")
        if result.get("adminAccess"):
            raise Failure("adminAccess is not supported: `vcuda top` on the node shows the use of its GPUs")
        gpu = by_name[result["device"]]
        if gpu in parts:
            raise Failure(f"the claim has {gpu.name} twice, and a program sees a GPU once. Ask for more memory in one request, or use "
                          f"the constraint distinctAttribute: {DRIVER}/uuid, or a claim for each container")
        consumed = result.get("consumedCapacity") or {}
        parts[gpu] = (whole(consumed, "memory", MIB, gpu.memory_mib, gpu.memory_mib), whole(consumed, "share", 1, WHOLE_SHARE, WHOLE_SHARE))
        devices.append([result.get("request", ""), gpu.name, result.get("shareID", "")])
    if len(set(parts.values())) > 1:
        raise Failure("the devices of a claim must have the same memory and share. Use a claim for each, in containers of their own")
    memory, share = next(iter(parts.values()))
    quotas = quotas_of(allocation.get("config") or [], [request for request, *_ in devices])
    owner = {"namespace": claim["metadata"].get("namespace"), "claim": claim["metadata"].get("name"), "devices": devices}
    return Unit(f"claim-{uid}", [gpu.uuid for gpu in parts], memory, share, quotas, owner)


class Driver(Plugin):
    def __init__(self, settings):
        super().__init__(settings)
        self.server = Api(settings.api, settings.token, settings.ca)
        self.publisher = Publisher(self.server, settings.node)
        self.servers, self.wanted, self.next_publish = [], None, 0
        self.gone, self.next_reconcile = set(), 0

    # ---- calls of the kubelet ----

    def GetInfo(self, _request, _context):
        return registration.PluginInfo(type="DRAPlugin", name=DRIVER, endpoint=str(self.endpoint), supported_versions=["v1.DRAPlugin"])

    def NotifyRegistrationStatus(self, request, _context):
        log("the kubelet has registered the driver" if request.plugin_registered else f"the kubelet does not register the driver: {request.error}")
        return registration.RegistrationStatusResponse()

    def NodePrepareResources(self, request, context):
        answer = api.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                answer.claims[claim.uid].CopyFrom(self.prepare(claim, context))
            except (Failure, OSError) as failure:
                log(f"claim {claim.namespace}/{claim.name}: {failure}")
                answer.claims[claim.uid].error = str(failure)
        return answer

    def read(self, namespace, name):
        """A claim as the API server has it. Raises ApiError."""
        return self.server.call("GET", f"{GROUP}/namespaces/{quote(namespace)}/resourceclaims/{quote(name)}")

    def prepare(self, claim, context):
        if not NAME.fullmatch(claim.uid):
            raise Failure(f"{claim.uid!r} is no UID of a claim")
        unit = self.units.find(f"claim-{claim.uid}")
        if not unit or unit.over:
            there = self.read(claim.namespace, claim.name)
            if there["metadata"]["uid"] != claim.uid:
                raise Failure(f"the claim of this name has the UID {there['metadata']['uid']} by now, not {claim.uid}")
            unit = unit_of(there, self.settings.node, self.gpus.values())
        try:
            # The kubelet gives up a Prepare before it calls Unprepare, which does not know a unit that is made after it.
            cdi = self.units.ensure(unit, wanted=context.is_active)
        except Failure:
            self.suspect = True
            raise
        # All containers of the claim have the vcudad with all its devices, whichever request they name.
        return api.NodePrepareResourceResponse(devices=[
            api.Device(request_names=[request], pool_name=self.settings.node, device_name=device, cdi_device_ids=[cdi], share_id=share)
            for request, device, share in unit.owner["devices"]])

    def NodeUnprepareResources(self, request, _context):
        answer = api.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            try:
                unit = self.units.find(f"claim-{claim.uid}")
                if unit:
                    log(f"claim {claim.namespace}/{claim.name} is over")
                    self.units.remove(unit)
                answer.claims[claim.uid].SetInParent()
            except OSError as error:
                answer.claims[claim.uid].error = f"the claim cannot be removed: {error}"
        return answer

    # ---- the kubelet and the API server ----

    @property
    def endpoint(self):
        return pathlib.Path(self.settings.kubelet, "plugins", DRIVER, "dra.sock")

    def serve(self):
        registry = pathlib.Path(self.settings.kubelet, "plugins_registry", f"{DRIVER}-reg.sock")
        self.servers.append(Server(self.endpoint, api.handler("DRAPlugin", self)))
        self.servers.append(Server(registry, registration.handler("Registration", self)))
        self.attempt(self.tick)

    def tick(self):
        self.publish()
        if time.monotonic() >= self.next_reconcile:
            self.next_reconcile = time.monotonic() + self.settings.reconcile_interval
            self.reconcile()

    def reconcile(self):
        """Removes units whose claim is gone for the second time: the kubelet has not called Unprepare, or this program was not there."""
        last, self.gone = self.gone, set()
        for unit in self.units.all():
            if self.has_claim(unit):
                continue
            if unit in last:
                log(f"claim {unit.owner['namespace']}/{unit.owner['claim']} is gone, and the kubelet has not said so")
                self.units.remove(unit)
            self.gone.add(unit)

    def has_claim(self, unit):
        """Whether the unit's claim is there and allocated to this node. Raises ApiError."""
        try:
            claim = self.read(unit.owner["namespace"], unit.owner["claim"])
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        allocation = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
        here = [result for result in allocation.get("results") or [] if (result.get("driver"), result.get("pool")) == (DRIVER, self.settings.node)]
        return f"claim-{claim['metadata']['uid']}" == unit.name and bool(here)

    def publish(self):
        gpus = [gpu for gpu in self.gpus.values() if gpu.uuid not in self.lost]
        if gpus == self.wanted and time.monotonic() < self.next_publish:
            return
        self.wanted = gpus
        pause = self.settings.publish_interval
        try:
            self.publisher.publish(gpus)
        except ApiError as error:
            log(f"the ResourceSlices cannot be published: {error}")
            pause = min(pause, RETRY_S)
        self.next_publish = time.monotonic() + pause

    def close(self):
        for server in reversed(self.servers):
            server.close()
