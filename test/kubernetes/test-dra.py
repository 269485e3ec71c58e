#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The DRA driver, with a kubelet and an API server of our own: test-dra.py BUILD_ROOT SCENARIO"""

import contextlib
import copy
import os
import pathlib
import re
import signal
import subprocess
import sys
import uuid

from programs import DEPLOY, Program, check, folder, need_packages, skip, wait_for

need_packages()
import yaml  # pylint: disable=wrong-import-position
from cdi_rules import check as check_cdi  # pylint: disable=wrong-import-position
from fakes import ApiServer, Kubelet  # pylint: disable=wrong-import-position
from resource_rules import Broken, check_slice  # pylint: disable=wrong-import-position
from vcuda_kube import messages, quantity  # pylint: disable=wrong-import-position

BUILD = pathlib.Path(sys.argv[1])
NODE = "node-1.example"
CLASS = {"apiVersion": "virtio-cuda/v1", "kind": "Quotas"}


class Cluster:
    def __init__(self, top, *options, cdi=None):
        self.top, self.options, self.cdi = top, options, cdi
        self.kubelet = Kubelet(f"{top}/kubelet")
        with open(DEPLOY / "dra/rbac.yaml", encoding="utf-8") as file:
            (role,) = [document for document in yaml.safe_load_all(file) if document["kind"] == "ClusterRole"]
        self.api = ApiServer(NODE, "secret", role["rules"])
        pathlib.Path(top, "token").write_text("secret\n")
        self.program = self.driver = None

    def start(self, **environment):
        self.program = Program(BUILD, self.top, "dra", "--node", NODE, "--api", self.api.url, "--token", f"{self.top}/token",
                               "--publish-interval", "0.1", *self.options, cdi=self.cdi, **environment)
        self.program.wait_for_words("published 2 devices")
        self.driver = self.kubelet.dra_plugin()

    def claim(self, name, *results, config=(), uid=None):
        """A claim that the scheduler has allocated: pairs of a device and what it consumes. Returns what the kubelet says of it."""
        uid = uid or str(uuid.uuid4())
        allocated = [{"request": f"request-{i}", "driver": "virtio-cuda", "pool": NODE, "device": device, "shareID": str(uuid.uuid4()),
                      "consumedCapacity": consumed} for i, (device, consumed) in enumerate(results)]
        self.api.claims["default", name] = {
            "kind": "ResourceClaim", "metadata": {"namespace": "default", "name": name, "uid": uid}, "spec": {"devices": {}},
            "status": {"allocation": {"devices": {"results": allocated, "config": list(config)}}}}
        return {"namespace": "default", "uid": uid, "name": name}

    def prepare(self, claim):
        """The CDI name of a claim that is prepared."""
        answer = self.driver.prepare(claim)[claim["uid"]]
        check(not answer.error and answer.devices, answer)
        names = {name for device in answer.devices for name in device.cdi_device_ids}
        check(len(names) == 1, names)
        return names.pop()

    def refusal(self, claim):
        answer = self.driver.prepare(claim)[claim["uid"]]
        check(answer.error and not answer.devices, f"{claim} is prepared: {answer}")
        return answer.error


@contextlib.contextmanager
def running(*options, cdi=None):
    with folder() as top:
        cluster = Cluster(top, *options, cdi=cdi)
        try:
            cluster.start()
            yield cluster
        finally:
            if cluster.program:
                cluster.program.kill()
            cluster.kubelet.stop()


def wire():
    """The tables say what the .proto files do: these bytes are from protoc."""
    for package, name, values, expected in (
            (messages.DEVICE_PLUGIN, "RegisterRequest", {"version": "v1beta1", "endpoint": "a.sock", "resource_name": "virtio-cuda/slice",
                                                         "options": {"get_preferred_allocation_available": True}},
             "0a07763162657461311206612e736f636b1a1176697274696f2d637564612f736c69636522021001"),
            (messages.DEVICE_PLUGIN, "ListAndWatchResponse", {"devices": [{"ID": "a", "health": "Healthy"}]}, "0a0c0a016112074865616c746879"),
            (messages.DEVICE_PLUGIN, "AllocateRequest", {"container_requests": [{"devices_ids": ["a", "b"]}]}, "0a060a01610a0162"),
            (messages.DEVICE_PLUGIN, "AllocateResponse", {"container_responses": [{"cdi_devices": [{"name": "x/y=z"}]}]},
             "0a092a070a05782f793d7a"),
            (messages.DEVICE_PLUGIN, "PreferredAllocationRequest",
             {"container_requests": [{"available_deviceIDs": ["a"], "must_include_deviceIDs": ["b"], "allocation_size": 2}]},
             "0a080a01611201621802"),
            (messages.POD_RESOURCES, "ListPodResourcesResponse", {"pod_resources": [{"name": "p", "namespace": "n", "containers": [
                {"name": "c", "devices": [{"resource_name": "r", "device_ids": ["a"]}]}]}]}, "0a130a017012016e1a0b0a016312060a0172120161"),
            (messages.PLUGIN_REGISTRATION, "PluginInfo", {"type": "DRAPlugin", "name": "d", "endpoint": "/e",
                                                          "supported_versions": ["v1.DRAPlugin"]},
             "0a09445241506c7567696e1201641a022f65220c76312e445241506c7567696e"),
            (messages.DRA, "NodePrepareResourcesRequest", {"claims": [{"namespace": "n", "uid": "u", "name": "c"}]},
             "0a090a016e1201751a0163"),
            (messages.DRA, "NodePrepareResourceResponse", {"devices": [{"request_names": ["r"], "pool_name": "p", "device_name": "d",
                                                                        "cdi_device_ids": ["x/y=z"]}]},
             "0a100a01721201701a01642205782f793d7a")):
        found = getattr(package, name)(**values).SerializeToString(deterministic=True).hex()
        check(found == expected, f"{name}: {found}")
    answer = messages.DRA.NodePrepareResourcesResponse.FromString(bytes.fromhex("0a170a017512120a100a01721201701a01642205782f793d7a"))
    check(answer.claims["u"].devices[0].pool_name == "p", answer)
    for text, value in (("8Gi", 8 << 30), ("1.5Ki", 1536), ("2M", 2000000), ("1e3", 1000), ("2E2", 200), ("3E", 3 * 10**18), ("+5", 5),
                        ("1500m", 1.5), (".5", 0.5)):
        check(quantity.parse(text) == value, f"{text}: {quantity.parse(text)}")
    for text in ("", "Gi", "1 Gi", "1GiB", "0x10", "1e", "nan", "1e9999", None):
        try:
            check(False, f"{text!r} is {quantity.parse(text)}")
        except ValueError:
            pass


def slices():
    """ResourceSlices: what is published, and that they are published again if they change or go."""
    with running() as cluster:
        (name, item), = cluster.api.slices.items()
        check(not cluster.api.refused, cluster.api.refused)
        check(item["metadata"]["ownerReferences"][0]["kind"] == "Node" and item["spec"]["nodeName"] == NODE, item)
        first, second = item["spec"]["devices"]
        check(first["name"] == "gpu-0" and second["name"] == "gpu-1" and first["attributes"]["uuid"] != second["attributes"]["uuid"], item)
        check(first["capacity"]["memory"]["value"] == "1Gi" and first["allowMultipleAllocations"], first)
        # Nothing is written while nothing changes.
        writes, reads = cluster.api.writes, cluster.api.reads
        wait_for(lambda: cluster.api.reads > reads + 1, "the driver looks at its slices")
        check(cluster.api.writes == writes == 1, f"{cluster.api.writes} writes")
        seen = len(cluster.program.words)
        del cluster.api.slices[name]
        cluster.program.wait_for_words("published 2 devices", since=seen)
        check(cluster.api.writes == writes + 1 and cluster.api.slices[name]["spec"]["pool"]["generation"] == 1, cluster.api.slices)
        # A slice too many goes, and its generation counts.
        seen = len(cluster.program.words)
        foreign = copy.deepcopy(item)
        foreign["metadata"]["name"] = "old"
        foreign["spec"]["pool"]["generation"] = 7
        cluster.api.slices["old"] = foreign
        cluster.program.wait_for_words("published 2 devices", since=seen)
        wait_for(lambda: cluster.api.slices.keys() == {name}, "the old slice goes")
        check(cluster.api.slices[name]["spec"]["pool"]["generation"] == 8, cluster.api.slices)
        # An API server that refuses all is asked again.
        seen = len(cluster.program.words)
        cluster.api.token = "another"
        cluster.program.wait_for_words("cannot be published: the API server answers GET", since=seen)
        seen = len(cluster.program.words)
        cluster.api.slices.clear()
        cluster.api.token = "secret"
        cluster.program.wait_for_words("published 2 devices", since=seen)
        # SIGTERM leaves them to the next run, or to the kubelet, which deletes them.
        check(cluster.program.end() == 0 and cluster.api.slices, "SIGTERM")
        check(not list(cluster.kubelet.folder.glob("plugins*/**/*.sock")), "sockets are left")
    rules(item)


def rules(good):
    """The rules find what the API server would refuse."""
    good = {**good, "metadata": {"name": "a"}}
    check_slice(good)
    device = good["spec"]["devices"][0]
    for number, change in enumerate((
            lambda s, d: s.update(apiVersion="v1"), lambda s, d: s["metadata"].update(name="A"), lambda s, d: s["spec"].pop("nodeName"),
            lambda s, d: s["spec"].update(driver="a/b"), lambda s, d: s["spec"]["pool"].update(resourceSliceCount=0),
            lambda s, d: s["spec"]["pool"].update(generation="1"), lambda s, d: s["spec"]["devices"].append(copy.deepcopy(d)),
            lambda s, d: d.update(name="gpu_0"), lambda s, d: d.update(basic={}), lambda s, d: d["attributes"].update({"a-b": {"int": 1}}),
            lambda s, d: d["attributes"].update(x={"int": 1, "bool": True}), lambda s, d: d["attributes"].update(x={"string": "x" * 65}),
            lambda s, d: d["attributes"].update(x={"version": "580.159.03"}), lambda s, d: d["attributes"].update(x={"int": True}),
            lambda s, d: d.pop("allowMultipleAllocations"), lambda s, d: d["capacity"]["memory"].update(value="much"),
            lambda s, d: d["capacity"]["memory"]["requestPolicy"].pop("default"),
            lambda s, d: d["capacity"]["share"]["requestPolicy"].update(default="101"),
            lambda s, d: d["capacity"]["share"]["requestPolicy"]["validRange"].update(step="0"),
            lambda s, d: d["capacity"]["share"]["requestPolicy"]["validRange"].update(step="100"))):
        broken = copy.deepcopy(good)
        change(broken, broken["spec"]["devices"][0])
        try:
            check_slice(broken)
        except Broken:
            continue
        check(False, f"the rules do not see change {number} of {device}")


def limits():
    """A claim's limit of host memory follows from the memory of its devices, or is that of its DeviceClass."""
    with running("--host-memory", "500") as cluster:
        if words := [line for line in cluster.program.words if "the host memory of vcudads has no limit" in line]:
            skip(words[0])
        own = {"source": "FromClass", "opaque": {"driver": "virtio-cuda", "parameters": {**CLASS, "max-host-memory": "3G"}}}
        names = [cluster.prepare(cluster.claim("one", ("gpu-1", {"memory": "256Mi", "share": "25"}))),
                 cluster.prepare(cluster.claim("two", *((gpu, {"memory": "64Mi", "share": "10"}) for gpu in ("gpu-0", "gpu-1")))),
                 cluster.prepare(cluster.claim("own", ("gpu-0", {"memory": "256Mi", "share": "25"}), config=[own]))]
        found = {daemon["name"]: daemon["quotas"]["max-host-memory"]["limit"] >> 20 for daemon in cluster.program.listed(BUILD)}
        check([found[name.partition("=")[2]] for name in names] == [256 + 500, 2 * 64 + 500, 3 << 10], found)


def claims():
    """Prepare and Unprepare, again and again."""
    with running() as cluster:
        program, driver = cluster.program, cluster.driver
        check(driver.info.type == "DRAPlugin" and driver.info.name == "virtio-cuda" and "v1.DRAPlugin" in driver.info.supported_versions, driver.info)
        one = cluster.claim("one", ("gpu-1", {"memory": "256Mi", "share": "25"}), config=[
            {"source": "FromClass", "requests": ["request-0"], "opaque": {"driver": "virtio-cuda", "parameters": {**CLASS, "max-contexts": 3}}},
            {"source": "FromClass", "requests": ["other", "request-0/other"], "opaque": {"driver": "virtio-cuda", "parameters": {**CLASS, "max-contexts": 5}}},
            {"source": "FromClaim", "opaque": {"driver": "example", "parameters": {"anything": 1}}}])
        name = cluster.prepare(one)
        check(program.memory_mib(BUILD, name) == {256}, "the quota")
        specification, edits = program.specification(name)
        check_cdi(specification)
        check(edits["env"] == [f"CUDA_VISIBLE_DEVICES={cluster.api.slices[f'{NODE}-virtio-cuda-0']['spec']['devices'][1]['attributes']['uuid']['string']}"], edits)
        process = program.daemons()[name.partition("=")[2]]
        words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        check(words[words.index(b"--share") + 1] == b"25" and words[words.index(b"--max-contexts") + 1] == b"3", words)
        # Idempotent, and without the API server: kubelet asks again after each restart of its own.
        (device,) = driver.prepare(one)[one["uid"]].devices
        result = cluster.api.claims["default", "one"]["status"]["allocation"]["devices"]["results"][0]
        check((device.pool_name, device.device_name, list(device.request_names), device.share_id) == (NODE, "gpu-1", ["request-0"], result["shareID"]), device)
        kept = cluster.api.claims.pop(("default", "one"))
        check(cluster.prepare(one) == name and program.daemons() == {name.partition("=")[2]: process}, "another vcudad")
        cluster.api.claims["default", "one"] = kept
        # Two devices, and none of the capacities: the cluster lacks DRAConsumableCapacity.
        two = cluster.claim("two", ("gpu-0", {}), ("gpu-1", {}))
        both = cluster.prepare(two)
        check(program.memory_mib(BUILD, both) == {1024}, "the whole memory")
        check(program.specification(both)[1]["env"][0].count("GPU-") == 2, "both devices")
        # A file that is gone is written again.
        (program.cdi / f"virtio-cuda-{name.partition('=')[2]}.json").unlink()
        check(cluster.prepare(one) == name and program.specification(name), "the CDI file")
        check(program.daemons()[name.partition("=")[2]] == process, "the vcudad of a container that runs")
        # Unprepare, twice, and of what never was.
        unknown = {"namespace": "default", "uid": str(uuid.uuid4()), "name": "unknown"}
        for _ in range(2):
            answer = driver.unprepare(one, unknown)
            check(answer.keys() == {one["uid"], unknown["uid"]} and not any(claim.error for claim in answer.values()), answer)
            check(program.daemons().keys() == {both.partition("=")[2]}, program.daemons())
            check([path.name for path in program.cdi.iterdir()] == [f"virtio-cuda-{both.partition('=')[2]}.json"], list(program.cdi.iterdir()))
        check(cluster.prepare(one) == name, "prepared after all")
        # Unprepare that cannot write the state fails, until it can, and the next run does not know the claim.
        with program.broken_state():
            check("cannot be removed" in driver.unprepare(one)[one["uid"]].error, "unprepare without a state")
            check("units.json" in cluster.refusal(cluster.claim("three", ("gpu-0", {"memory": "64Mi"}))), "prepare without a state")
            check(len(program.daemons()) == 2, program.daemons())
        check(not driver.unprepare(one)[one["uid"]].error and program.daemons().keys() == {both.partition("=")[2]}, program.daemons())
        program.end()
        cluster.start()
        cluster.program.wait_for_words(f"{both.partition('=')[2]} has 1024 MiB")
        check(one["uid"] not in pathlib.Path(cluster.top, "state/units.json").read_text(), "the claim is in the state")


def refusals():
    """Claims that cannot be met get a sentence, and leave nothing."""
    with running() as cluster:
        def parameters(source="FromClass", **values):
            return [{"source": source, "opaque": {"driver": "virtio-cuda", "parameters": values}}]

        fine = {"memory": "64Mi", "share": "10"}
        for expected, arguments in (
                ("a device has from 1 to 1024 Mi", {"results": [("gpu-0", {"memory": "2Gi"})]}),
                ("a device has from 1 to 1024 Mi", {"results": [("gpu-0", {"memory": "1"})]}),
                ("a device has from 1 to 1024 Mi", {"results": [("gpu-0", {"memory": "-5Mi"})]}),
                ("a device has from 1 to 100", {"results": [("gpu-0", {**fine, "share": "0"})]}),
                ("a device has from 1 to 100", {"results": [("gpu-0", {**fine, "virtio-cuda/share": "1e5", "share": "1000"})]}),
                ("'lots' is no quantity", {"results": [("gpu-0", {"memory": "lots"})]}),
                (f"{NODE}/gpu-9, which is not of this node", {"results": [("gpu-9", fine)]}),
                (f"{NODE}/../../etc, which is not of this node", {"results": [("../../etc", fine)]}),
                ("gpu-0 twice", {"results": [("gpu-0", fine), ("gpu-0", fine)]}),
                ("the same memory and share", {"results": [("gpu-0", fine), ("gpu-1", {**fine, "memory": "65Mi"})]}),
                ("no device of this driver", {"results": []}),
                ("a claim cannot set parameters", {"results": [("gpu-0", fine)], "config": parameters("FromClaim", **CLASS)}),
                ("need apiVersion virtio-cuda/v1 and kind Quotas", {"results": [("gpu-0", fine)], "config": parameters(kind="Quotas")}),
                ("the parameter 'socket-mode'; known are max-contexts", {"results": [("gpu-0", fine)],
                                                                          "config": parameters(**CLASS, **{"socket-mode": "0777"})}),
                ("max-contexts '3 --verbose'", {"results": [("gpu-0", fine)], "config": parameters(**CLASS, **{"max-contexts": "3 --verbose"})}),
                ("max-contexts [3]", {"results": [("gpu-0", fine)], "config": parameters(**CLASS, **{"max-contexts": [3]})}),
                # vcudad itself refuses this value, and the claim gets vcudad's words.
                ("vcudad does not start: ", {"results": [("gpu-0", fine)], "config": parameters(**CLASS, **{"max-contexts": "0"})})):
            said = cluster.refusal(cluster.claim("bad", *arguments.pop("results"), **arguments))
            check(expected in said, f"{expected!r}: {said}")
        for expected, claim in (("no UID", {"namespace": "default", "uid": "../../../tmp/x", "name": "bad"}), ("no UID", {"namespace": "", "uid": "", "name": ""}),
                                ("not found", {"namespace": "../..", "uid": "u", "name": "a/b?c"}),
                                ("by now, not other", {"namespace": "default", "uid": "other", "name": "bad"})):
            check(expected in cluster.refusal(claim), cluster.refusal(claim))
        admin = cluster.claim("admin", ("gpu-0", fine))
        cluster.api.claims["default", "admin"]["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
        check("adminAccess is not supported" in cluster.refusal(admin), "adminAccess")
        del cluster.api.claims["default", "admin"]["status"]
        check("no device of this driver" in cluster.refusal(admin), "a claim that is not allocated")
        # One bad claim of several does not stop the others.
        good = cluster.claim("good", ("gpu-0", fine))
        answer = cluster.driver.prepare(admin, good)
        check(answer[admin["uid"]].error and not answer[good["uid"]].error, answer)
        check(len(cluster.program.daemons()) == 1 and len(list(cluster.program.run.glob("claim-*"))) == 1, "a refused claim leaves something")
        check(not cluster.driver.unprepare({"namespace": "", "uid": "../../tmp", "name": ""})["../../tmp"].error, "unprepare")
        # A wrong token is told, and the next one is read.
        pathlib.Path(cluster.top, "token").write_text("wrong")
        check("401: Unauthorized" in cluster.refusal(cluster.claim("late", ("gpu-0", fine))), "the token")


def restart():
    """Claims survive a restart of the driver, even after SIGKILL, and GPUs that go and come."""
    with running() as cluster:
        claim = cluster.claim("one", ("gpu-0", {"memory": "128Mi", "share": "5"}))
        gone = cluster.claim("gone", ("gpu-0", {"memory": "128Mi", "share": "5"}))
        name, other = cluster.prepare(claim), cluster.prepare(gone)
        for number in (signal.SIGTERM, signal.SIGKILL):
            before = cluster.program.daemons()
            cluster.program.end(number)
            check(bool(cluster.program.daemons()) == (number == signal.SIGKILL), "vcudads after the signal")
            cluster.start()
            cluster.program.starts_again(before)
            check(cluster.program.memory_mib(BUILD, name) == {128}, "the claim has changed")
            check(cluster.prepare(claim) == name, "prepared again")
        # Files of an unknown claim are removed at the next start; files and processes of others are not.
        run, cdi = cluster.program.run, cluster.program.cdi
        (cdi / "virtio-cuda-claim-x.json").write_text((cdi / f"virtio-cuda-{name.partition('=')[2]}.json").read_text())
        (run / "claim-x").mkdir()
        others = [cdi / "virtio-cuda-claim-y.json", run / "other"]
        for path in others:
            path.write_bytes(b"{}\xff")
        before = cluster.program.daemons()
        cluster.program.end()
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "--socket", f"{run}/claim-x/socket"]) as stranger:
            try:
                cluster.start()
                check(stranger.poll() is None, "another program is ended")
            finally:
                stranger.kill()
        cluster.program.starts_again(before)
        check(len(list(cdi.iterdir())) == 3 and not (run / "claim-x").exists() and all(path.exists() for path in others), list(cdi.iterdir()))
        cluster.driver.unprepare(gone)
        check(other.partition("=")[2] not in cluster.program.daemons(), "unprepare after a restart")
        # vcudad ends: it is there again, in the folder that the container has.
        unit = name.partition("=")[2]
        folder_of = (cluster.program.run / unit).stat().st_ino
        seen = len(cluster.program.words)
        os.kill(cluster.program.daemons()[unit], signal.SIGKILL)
        cluster.program.wait_for_words(f"{unit} has 128 MiB", since=seen)
        check(cluster.program.memory_mib(BUILD, name) == {128} and (cluster.program.run / unit).stat().st_ino == folder_of, "another folder")


def gone():
    """Claims that go without an Unprepare, and a Prepare that the kubelet has given up."""
    fine = {"memory": "64Mi", "share": "10"}
    with running("--reconcile-interval", "0.1") as cluster:
        program, api = cluster.program, cluster.api
        deleted, again, moved, stays = (cluster.claim(name, ("gpu-0", fine)) for name in ("deleted", "again", "moved", "stays"))
        for claim in (deleted, again, moved, stays):
            cluster.prepare(claim)
        # An API server that does not know the token has deleted no claim.
        api.token = "another"
        program.wait_for_words("401: Unauthorized")
        reads = api.reads
        api.token = "secret"
        wait_for(lambda: api.reads > reads + 2, "some rounds")
        check(len(program.daemons()) == 4, program.daemons())
        del api.claims["default", "deleted"]
        cluster.claim("again", ("gpu-0", fine))
        api.claims["default", "moved"]["status"]["allocation"]["devices"]["results"][0]["pool"] = "another-node"
        wait_for(lambda: program.daemons().keys() == {f"claim-{stays['uid']}"}, "the end of the vcudads without a claim")
    with running() as cluster:
        program, api = cluster.program, cluster.api
        wait_for(lambda: api.reads > 0, "the first rounds")
        claim = cluster.claim("late", ("gpu-0", fine))
        api.answers.clear()
        reads = api.claim_reads
        call = cluster.driver.begin_prepare(claim)
        wait_for(lambda: api.claim_reads > reads, "the question for the claim")
        call.cancel()
        check(not cluster.driver.unprepare(claim)[claim["uid"]].error, "unprepare")
        api.answers.set()
        wait_for(lambda: program.daemons() or any("is over" in line for line in program.words), "the end of Prepare")
        check(not program.daemons(), "a vcudad that nothing ends")


def lost():
    """A GPU that is gone is no longer published, and comes back."""
    with folder() as top:
        wrapper = pathlib.Path(top, "vcudad")
        wrapper.write_text(f'#!/bin/sh\nVCUDA_CPU_DEVICES=$(cat {top}/count)\nexport VCUDA_CPU_DEVICES\nexec {BUILD}/host/daemon/vcudad "$@"\n')
        wrapper.chmod(0o755)
        count = pathlib.Path(top, "count")
        count.write_text("2")
        with running("--vcudad", str(wrapper), "--probe-interval", "0") as cluster:
            name = cluster.prepare(cluster.claim("one", ("gpu-0", {"memory": "64Mi", "share": "5"})))
            count.write_text("1")
            os.kill(cluster.program.daemons()[name.partition("=")[2]], signal.SIGKILL)
            cluster.program.wait_for_words("published 1 devices")
            check([device["name"] for device in cluster.api.slices[f"{NODE}-virtio-cuda-0"]["spec"]["devices"]] == ["gpu-0"], cluster.api.slices)
            seen = len(cluster.program.words)
            count.write_text("2")
            cluster.program.wait_for_words("published 2 devices", since=seen)


def keeps(engine_, cluster, name):
    """A container that runs while its vcudad starts again has a GPU."""
    r = engine_.start(["--detach", "--name", "keeps", "--device", name], "sleep", "3600")
    check(r.returncode == 0, r.stderr)
    try:
        unit, seen = name.partition("=")[2], len(cluster.program.words)
        os.kill(cluster.program.daemons()[unit], signal.SIGKILL)
        cluster.program.wait_for_words(f"{unit} has 256 MiB", since=seen)
        r = engine_.call("--runtime", engine_.runtime, "exec", "keeps", "/test/vectorAdd")
        check("Test PASSED" in r.stdout, f"{r.stdout}{r.stderr}")
    finally:
        engine_.call("--runtime", engine_.runtime, "rm", "--force", "--time", "0", "keeps")


def podman():
    """Podman takes the CDI files, and a container that runs has the vcudad that comes after another one."""
    if os.geteuid() != 0:
        skip("only root starts containers as root")
    if not os.environ.get("VCUDA_TEST_CDI"):
        # Podman reads /run/cdi. This test has one of its own, so that it leaves nothing there when it is killed.
        os.makedirs("/run/cdi", exist_ok=True)
        os.execvpe("unshare", ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run/cdi && exec "$@"', "sh", sys.executable, *sys.argv],
                   dict(os.environ, VCUDA_TEST_CDI="own"))
    from podman import engine  # pylint: disable=import-outside-toplevel
    programs = [BUILD / "examples/vectorAdd", BUILD / "test/local/computations"]
    with engine(BUILD, programs) as (engine_, _):
        with running(cdi="/run/cdi") as cluster:
            one = cluster.claim("one", ("gpu-1", {"memory": "256Mi", "share": "25"}))
            two = cluster.claim("two", ("gpu-0", {"memory": "64Mi", "share": "10"}), ("gpu-1", {"memory": "64Mi", "share": "10"}))
            try:
                for _ in engine_.runtimes():
                    name, both = cluster.prepare(one), cluster.prepare(two)
                    gpu = ["--device", name]
                    engine_.expect("Test PASSED", [*gpu, "--user", "1234:1234", "--read-only", "--cap-drop=all"], "/test/vectorAdd")
                    engine_.expect("computations: passed", gpu, "/test/computations")
                    engine_.expect(r"(?m)^256\n", gpu, "vcuda", "smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
                    # The kubelet gives the name once for each device of the claim.
                    r = engine_.expect(r"(?m)^64\n64\n", ["--device", both, "--device", both], "vcuda", "smi", "--query-gpu=memory.total",
                                       "--format=csv,noheader,nounits")
                    visible = re.search("CUDA_VISIBLE_DEVICES=(.*)", engine_.expect("CUDA_VISIBLE", ["--device", both], "env").stdout)
                    check(len(set(visible[1].split(","))) == 2, r.stdout)
                    keeps(engine_, cluster, name)
                    cluster.driver.unprepare(one, two)
                    engine_.expect(re.escape(name), gpu, "env", status=126)
            finally:
                cluster.driver.unprepare(one, two)


globals()[sys.argv[2]]()
