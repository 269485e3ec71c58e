# SPDX-License-Identifier: Apache-2.0
"""A kubelet and an API server, as far as the plug-ins meet them. Both write what they hear to standard output."""

import concurrent.futures
import copy
import http.server
import json
import pathlib
import queue
import threading
import urllib.parse

import grpc
from resource_rules import Broken, check_slice
from vcuda_kube.messages import DEVICE_PLUGIN, DRA, PLUGIN_REGISTRATION, POD_RESOURCES

LIMIT = 600


def say(text):
    print(text, flush=True)


class Server:
    def __init__(self, path, handler):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        self.server.add_generic_rpc_handlers([handler])
        assert self.server.add_insecure_port(f"unix:{path}"), path
        self.server.start()

    def close(self):
        self.server.stop(None).wait()


class Kubelet:
    """Registers device plug-ins, watches their devices, allocates them, and lists the resources of pods."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.plugins = queue.Queue()  # requests of Register
        self.refuse, self.lists = None, 0
        self.pods = {}  # name: (resource, device IDs)
        self.permits = None  # a semaphore: each List waits for one before it returns what it has found
        self.channels, self.servers = [], []

    def start(self):
        """As at each start of a kubelet: all sockets of plug-ins are deleted, and its own are new."""
        plugins = self.folder / "device-plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        for path in plugins.iterdir():
            path.unlink()
        self.servers = [Server(plugins / "kubelet.sock", DEVICE_PLUGIN.handler("Registration", self)),
                        Server(self.folder / "pod-resources/kubelet.sock", POD_RESOURCES.handler("PodResourcesLister", self))]

    def stop(self):
        for channel in self.channels:
            channel.close()
        for server in self.servers:
            server.close()
        self.channels, self.servers = [], []

    def Register(self, request, context):
        say(f"kubelet: Register {request.resource_name} at {request.endpoint}, API {request.version}")
        if self.refuse:
            context.abort(grpc.StatusCode.UNKNOWN, self.refuse)
        self.plugins.put(request)
        return DEVICE_PLUGIN.Empty()

    def List(self, _request, _context):
        answer = POD_RESOURCES.ListPodResourcesResponse()
        for name, (resource, devices) in self.pods.items():
            container = answer.pod_resources.add(name=name, namespace="default").containers.add(name="main")
            container.devices.add(resource_name=resource, device_ids=devices)
        self.lists += 1
        if permits := self.permits:
            permits.acquire(timeout=LIMIT)
        return answer

    def connect(self, path):
        # Connections of its own, as a kubelet that is another process has them.
        channel = grpc.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)])
        self.channels.append(channel)
        return channel

    def plugin(self):
        """The device plug-in that registers next."""
        request = self.plugins.get(timeout=LIMIT)
        return DevicePlugin(self.connect(self.folder / "device-plugins" / request.endpoint), request)

    def dra_plugin(self):
        """The DRA driver, by its socket for registration."""
        registry = self.folder / "plugins_registry"
        (path,) = registry.glob("*.sock")
        channel = self.connect(path)
        info = PLUGIN_REGISTRATION.call(channel, "Registration", "GetInfo")(PLUGIN_REGISTRATION.InfoRequest(), timeout=LIMIT)
        say(f"kubelet: GetInfo: {info.type} {info.name}, {list(info.supported_versions)}, {info.endpoint}")
        status = PLUGIN_REGISTRATION.RegistrationStatus(plugin_registered=True)
        PLUGIN_REGISTRATION.call(channel, "Registration", "NotifyRegistrationStatus")(status, timeout=LIMIT)
        return DraPlugin(self.connect(info.endpoint), info)


class DevicePlugin:
    def __init__(self, channel, request):
        self.channel, self.request = channel, request
        self.options = self.call("GetDevicePluginOptions", DEVICE_PLUGIN.Empty())
        self.stream = DEVICE_PLUGIN.call(channel, "DevicePlugin", "ListAndWatch")(DEVICE_PLUGIN.Empty(), timeout=LIMIT)

    def call(self, method, request):
        return DEVICE_PLUGIN.call(self.channel, "DevicePlugin", method)(request, timeout=LIMIT)

    def devices(self):
        """The next list, as names with their health."""
        found = {device.ID: device.health for device in next(self.stream).devices}
        bad = sorted(name for name, health in found.items() if health != "Healthy")
        say(f"kubelet: ListAndWatch: {len(found)} devices, unhealthy: {bad}")
        return found

    def allocate(self, *containers):
        """The CDI names of each container, or the error's text."""
        request = DEVICE_PLUGIN.AllocateRequest()
        for devices in containers:
            request.container_requests.add(devices_ids=devices)
        try:
            answer = self.call("Allocate", request)
        except grpc.RpcError as error:
            say(f"kubelet: Allocate {containers}: {error.code()}: {error.details()}")
            return error.details()
        names = [[device.name for device in container.cdi_devices] for container in answer.container_responses]
        say(f"kubelet: Allocate {containers}: {names}")
        return names

    def prefer(self, available, must, size):
        request = DEVICE_PLUGIN.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size)
        (answer,) = self.call("GetPreferredAllocation", request).container_responses
        return list(answer.deviceIDs)


class DraPlugin:
    def __init__(self, channel, info):
        self.channel, self.info = channel, info

    def call(self, method, claims):
        request = getattr(DRA, f"{method}Request")()
        for claim in claims:
            request.claims.add(**claim)
        answer = DRA.call(self.channel, "DRAPlugin", method)(request, timeout=LIMIT)
        say(f"kubelet: {method} {[claim['uid'] for claim in claims]}: {str(answer).strip()!r}")
        return answer.claims

    def begin_prepare(self, claim):
        """A call that the caller can cancel."""
        request = DRA.NodePrepareResourcesRequest()
        request.claims.add(**claim)
        return DRA.call(self.channel, "DRAPlugin", "NodePrepareResources").future(request, timeout=LIMIT)

    def prepare(self, *claims):
        return self.call("NodePrepareResources", claims)

    def unprepare(self, *claims):
        return self.call("NodeUnprepareResources", claims)


class ApiServer:
    """Nodes, claims and ResourceSlices. It refuses slices that break the published rules, and calls that the account's ClusterRole
    does not allow; and it writes quantities as Kubernetes does."""

    SLICES = "/apis/resource.k8s.io/v1/resourceslices"

    def __init__(self, node, token, role):
        """`role`: the rules of a ClusterRole."""
        self.node, self.token, self.role = node, token, role
        self.slices, self.claims, self.version = {}, {}, 0
        self.answers = threading.Event()  # claims are told while it is set
        self.answers.set()
        self.refused, self.reads, self.writes, self.claim_reads = [], 0, 0, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, value = outer.handle(self.command, urllib.parse.urlsplit(self.path), body, self.headers.get("Authorization"))
                say(f"API server: {self.command} {self.path}: {status}{' ' + value['message'] if status >= 400 else ''}")
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handle(self, method, url, body, authorization):
        path = [urllib.parse.unquote(part) for part in url.path.split("/")]
        if authorization != f"Bearer {self.token}":
            return self.fail(401, "Unauthorized")
        if not self.allows(method, path):
            return self.fail(403, f"the account may not {method} {url.path}")
        if method == "GET" and path[1:4] == ["api", "v1", "nodes"]:
            if path[4] != self.node:
                return self.fail(404, f"nodes {path[4]!r} not found")
            return 200, {"kind": "Node", "metadata": {"name": self.node, "uid": "5f0c1f5e-4b39-4d52-9d2e-b8d1c0d4b1aa"}}
        if method == "GET" and path[-2] == "resourceclaims":
            self.claim_reads += 1
            self.answers.wait(LIMIT)
            claim = self.claims.get((path[-3], path[-1]))
            return (200, claim) if claim else self.fail(404, f"resourceclaims.resource.k8s.io {path[-1]!r} not found")
        if url.path == self.SLICES and method == "GET":
            self.reads += 1
            selector = dict(term.split("=") for term in urllib.parse.parse_qs(url.query)["fieldSelector"][0].split(","))
            items = [item for item in self.slices.values() if item["spec"]["driver"] == selector["spec.driver"]
                     and item["spec"]["nodeName"] == selector["spec.nodeName"]]
            return 200, {"kind": "ResourceSliceList", "items": items}
        if url.path.startswith(self.SLICES):
            return self.write(method, path[-1], body)
        return self.fail(404, "the server could not find the requested resource")

    def allows(self, method, path):
        group, rest = ("", path[3:]) if path[1] == "api" else (path[2], path[4:])
        rest = rest[2:] if rest[0] == "namespaces" else rest
        verb = {"GET": "get" if len(rest) > 1 else "list", "POST": "create", "PUT": "update", "DELETE": "delete"}[method]
        return any(group in rule["apiGroups"] and rest[0] in rule["resources"] and verb in rule["verbs"] for rule in self.role)

    def write(self, method, name, body):
        if method == "DELETE":
            return (200, {}) if self.slices.pop(name, None) else self.fail(404, f"{name} not found")
        try:
            check_slice(body)
        except Broken as broken:
            self.refused.append(str(broken))
            return self.fail(422, f"ResourceSlice is invalid: {broken}")
        name = body["metadata"]["name"]
        there = self.slices.get(name)
        if method == "POST" and there:
            return self.fail(409, f"resourceslices {name!r} already exists")
        if method == "PUT":
            if not there:
                return self.fail(404, f"{name} not found")
            if body["metadata"].get("resourceVersion") != there["metadata"]["resourceVersion"]:
                return self.fail(409, "the object has been modified")
        self.version += 1
        self.writes += 1
        item = canonical(copy.deepcopy(body))
        item["metadata"]["resourceVersion"] = str(self.version)
        self.slices[name] = item
        return 201 if method == "POST" else 200, item

    @staticmethod
    def fail(status, message):
        return status, {"kind": "Status", "status": "Failure", "code": status, "message": message}


def canonical(value):
    """Quantities as the server writes them: 2048Mi is 2Gi."""
    if isinstance(value, dict):
        return {name: canonical(member) for name, member in value.items()}
    if isinstance(value, list):
        return [canonical(member) for member in value]
    units = ["Ki", "Mi", "Gi", "Ti"]
    if isinstance(value, str) and value[-2:] in units and value[:-2].isdigit():
        number, unit = int(value[:-2]), units.index(value[-2:])
        while number and number % 1024 == 0 and unit + 1 < len(units):
            number, unit = number // 1024, unit + 1
        return f"{number}{units[unit]}"
    return value
