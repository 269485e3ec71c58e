# SPDX-License-Identifier: Apache-2.0
"""The kubelet's device plug-in API, v1beta1: each GPU is N slices, each with 1/N of its memory and of the device's time."""

import hashlib
import json
import pathlib
import subprocess
import time

import grpc

from .daemon import Failure, log
from .messages import DEVICE_PLUGIN as api
from .messages import POD_RESOURCES
from .plugin import Plugin, Server, identity
from .units import Unit

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
CALL_LIMIT_S = 10


def unit_name(kind, slices):
    return f"{kind}-{hashlib.sha256(' '.join(sorted(slices)).encode()).hexdigest()[:16]}"


class DevicePlugin(Plugin):
    def __init__(self, settings):
        super().__init__(settings)
        self.folder = pathlib.Path(settings.kubelet, "device-plugins")
        self.kubelet = self.folder / "kubelet.sock"
        self.pod_resources = pathlib.Path(settings.kubelet, "pod-resources", "kubelet.sock")
        self.server, self.generation, self.served, self.registered = None, 0, None, False
        self.missing, self.listed, self.next_collect = {}, set(), 0

    # ---- slices ----

    def gpu_of(self, slice_id):
        """Raises Failure."""
        uuid, _, number = slice_id.rpartition("::")
        if uuid not in self.gpus or not number.isdigit() or int(number) >= self.settings.slices:
            raise Failure(f"{slice_id!r} is no slice of a GPU of this node")
        return self.gpus[uuid]

    def memory_mib(self, gpu, slices):
        return gpu.memory_mib * len(slices) // self.settings.slices

    def slices(self):
        """All, each with its health."""
        bad = {slice_id for unit in self.units.failing() for slice_id in unit.owner["slices"]}
        for uuid in self.gpus:
            for number in range(self.settings.slices):
                slice_id = f"{uuid}::{number}"
                yield slice_id, UNHEALTHY if uuid in self.lost or slice_id in bad else HEALTHY

    # ---- calls of the kubelet ----

    def GetDevicePluginOptions(self, _request, _context):
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    def ListAndWatch(self, _request, context):
        told, generation = None, self.generation
        while context.is_active() and generation == self.generation:
            with self.condition:
                version = self.version
            found = list(self.slices())
            if found != told:
                log(f"tells the kubelet of {len(found)} slices, {sum(health == UNHEALTHY for _, health in found)} of them unhealthy")
                yield api.ListAndWatchResponse(devices=[api.Device(ID=slice_id, health=health) for slice_id, health in found])
                told = found
            with self.condition:
                self.condition.wait_for(lambda: self.version != version, timeout=1)

    def GetPreferredAllocation(self, request, _context):
        """All slices of a container from one GPU: the one that has the fewest free of those that have enough."""
        answers = []
        for wanted in request.container_requests:
            size, must = wanted.allocation_size, list(wanted.must_include_deviceIDs)
            free = {}
            for slice_id in wanted.available_deviceIDs:
                free.setdefault(slice_id.rpartition("::")[0], []).append(slice_id)
            held = {slice_id.rpartition("::")[0] for slice_id in must}
            fitting = [ids for uuid, ids in free.items() if held <= {uuid} and len(set(ids) | set(must)) >= size]
            chosen = must + [slice_id for slice_id in min(fitting, key=len, default=wanted.available_deviceIDs) if slice_id not in must]
            answers.append(api.ContainerPreferredAllocationResponse(deviceIDs=chosen[:size]))
        return api.PreferredAllocationResponse(container_responses=answers)

    def Allocate(self, request, context):
        answers = []
        try:
            for wanted in request.container_requests:
                name = self.allocate(list(wanted.devices_ids))
                answers.append(api.ContainerAllocateResponse(cdi_devices=[api.CDIDevice(name=name)]))
        except (Failure, OSError) as failure:
            log(f"refuses to allocate: {failure}")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(failure))
        return api.AllocateResponse(container_responses=answers)

    def allocate(self, slices):
        """The CDI name of a new unit with these slices. The container that had the same slices has ended: the kubelet gives them again.

        A unit that has only some of these slices may be the one of an init container of the same pod, and stays until collect().
        """
        uuids = {self.gpu_of(slice_id).uuid for slice_id in slices}
        if len(uuids) != 1:
            raise Failure("the slices of a container must be of one GPU. "
                          f"The kubelet chose {', '.join(sorted(slices))}: no GPU has as many free, so ask for fewer")
        gpu = self.gpus[uuids.pop()]
        others = [unit.name for unit in self.units.all() if unit.uuids == [gpu.uuid] and unit.memory_mib != self.memory_mib(gpu, unit.owner["slices"])]
        if others:
            raise Failure(f"{gpu.name} has containers with slices of another size ({', '.join(others)}): --slices was changed. "
                          "Drain the node; the vcudads of ended containers end within 6 minutes")
        memory = self.memory_mib(gpu, slices)
        unit = Unit(unit_name(self.settings.kind, slices), [gpu.uuid], memory, len(slices), {}, {"slices": sorted(slices)})
        last = self.units.find(unit.name)
        if last:
            log(f"{last.name} is over: its slices are given to another container")
            self.units.remove(last)
        try:
            return self.units.ensure(unit)
        except Failure:
            self.suspect = True
            raise

    def PreStartContainer(self, _request, _context):
        return api.PreStartContainerResponse()

    # ---- the kubelet comes and goes ----

    def serve(self):
        for path in self.folder.glob(f"virtio-cuda-{self.settings.kind}.*.sock"):
            path.unlink()
        self.tick()

    def tick(self):
        kubelet = identity(self.kubelet)
        if kubelet and (kubelet != self.served or not self.server.is_there()):
            self.serve_anew(kubelet)
        if kubelet and not self.registered:
            self.register()
        if time.monotonic() >= self.next_collect:
            self.next_collect = time.monotonic() + self.settings.collect_interval
            self.collect()

    def serve_anew(self, kubelet):
        """A kubelet that starts deletes all sockets of the folder. The new one has another name: gRPC may delete the old name late."""
        self.generation += 1
        self.changed()
        if self.server:
            self.server.close()
        path = self.folder / f"virtio-cuda-{self.settings.kind}.{self.generation}.sock"
        self.server = Server(path, api.handler("DevicePlugin", self))
        self.served, self.registered = kubelet, False

    def register(self):
        options = self.GetDevicePluginOptions(None, None)
        request = api.RegisterRequest(version="v1beta1", endpoint=self.server.path.name, resource_name=self.settings.resource, options=options)
        try:
            with grpc.insecure_channel(f"unix:{self.kubelet}") as channel:
                api.call(channel, "Registration", "Register")(request, timeout=CALL_LIMIT_S)
        except grpc.RpcError as error:
            self.complain("register", f"the kubelet does not register {self.settings.resource}: {error.details()}")
            return
        self.registered = True
        self.complaints.pop("register", None)
        log(f"the kubelet has registered {self.settings.resource}")

    # ---- containers that have ended ----

    def initial(self, units, held):
        """The units that may be those of init containers, which the kubelet does not list: an init container's slices go to the next
        containers of its pod, which may take fewer. So each has a slice of a listed container, or of another init container that has.
        """
        used, found = set().union(*held), set()
        while more := {unit for unit in units - found if used & set(unit.owner["slices"])}:
            found |= more
            used.update(*(unit.owner["slices"] for unit in more))
        return found

    def busy(self):
        """The names of units whose vcudad serves a program or a VM. Raises Failure."""
        try:
            answer = subprocess.run([self.settings.vcuda, "vm", "list", "--json"], capture_output=True, text=True, check=False,
                                    timeout=CALL_LIMIT_S, env=self.settings.environment())
            return {daemon["name"] for daemon in json.loads(answer.stdout) if daemon["processes"] or daemon["vm"] == "connected"}
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
            raise Failure(f"`vcuda vm list` does not list the vcudads: {error}") from error

    def collect(self):
        """Removes units whose slices no container has had for `collect_after`, and that serve no program. The device plug-in API has
        no call for that.

        The delay: the kubelet does not list a pod yet that it is admitting, and few pods just after its own start.
        """
        units = self.units.all()  # before the list, which cannot have the containers of later units
        if not self.pod_resources.exists() or not units:
            return
        try:
            with grpc.insecure_channel(f"unix:{self.pod_resources}") as channel:
                answer = POD_RESOURCES.call(channel, "PodResourcesLister", "List")(POD_RESOURCES.ListPodResourcesRequest(), timeout=CALL_LIMIT_S)
        except grpc.RpcError as error:
            self.complain("list", f"the kubelet does not list the resources of pods: {error.details()}")
            self.missing = {}
            return
        held = [{slice_id for devices in container.devices if devices.resource_name == self.settings.resource for slice_id in devices.device_ids}
                for pod in answer.pod_resources for container in pod.containers]
        now = time.monotonic()
        there = {unit for unit in units if set(unit.owner["slices"]) in held}
        self.listed = (self.listed | there) & set(units)
        there |= self.initial(set(units) - self.listed, held)
        self.missing = {unit: self.missing.get(unit, now) for unit in units if unit not in there}
        over = [unit for unit, since in self.missing.items() if now - since >= self.settings.collect_after]
        busy = self.busy() if over else set()
        for unit in [unit for unit in over if unit.name not in busy]:
            log(f"{unit.name} is over: no container has its slices")
            self.units.remove(unit)
            self.changed()

    def close(self):
        self.generation += 1
        self.changed()
        if self.server:
            self.server.close()
