# SPDX-License-Identifier: Apache-2.0
"""The plug-ins under test, with the software GPU."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = SOURCE / "integrations/kubernetes/vcuda-kube"
DEPLOY = PROGRAM.parent / "deploy"
LIMIT = 600
GROUPS = os.environ.get("TEST_GROUPS")
sys.path[:0] = [str(PROGRAM.parent), str(SOURCE / "test/containers")]
from common import check, skip  # pylint: disable=wrong-import-position


def need_packages():
    try:
        import grpc  # pylint: disable=unused-import
        import yaml  # pylint: disable=unused-import
    except ImportError as error:
        skip(f"{error} (Debian's packages python3-grpcio and python3-yaml)")


def wait_for(condition, text):
    end = time.monotonic() + LIMIT
    while not condition():
        check(time.monotonic() < end, f"after {LIMIT} s there is not: {text}")
        time.sleep(0.05)


class Program:
    """vcuda-kube. `words` has the lines of its log."""

    def __init__(self, build, top, mode, *options, cdi=None, program=PROGRAM, **environment):
        self.top = pathlib.Path(top)
        self.run, self.cdi = self.top / "run", pathlib.Path(cdi or self.top / "cdi")
        self.words = []
        environment = {"VCUDA_CPU_DEVICES": "2", "VCUDA_CPU_MEMORY": "1G", "VCUDA_CONTROL": f"{top}/control", **environment}
        # A control group of version 2 for the plug-in alone, as a container has one.
        enter = ["sh", "-c", 'mkdir "$0" && echo 0 >"$0/cgroup.procs" && exec "$@"', f"{GROUPS}/{self.top.name}"] if GROUPS else []
        self.process = subprocess.Popen(
            [*enter, sys.executable, program, mode, "--kubelet", f"{top}/kubelet", "--run", self.run, "--state", f"{top}/state", "--cdi", self.cdi,
             "--vcudad", f"{build}/host/daemon/vcudad", "--vcuda", f"{build}/cli/vcuda", "--backend", "cpu", "--probe-interval", "1", *options],
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, **environment))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.words.append(line)
            print(f"plug-in: {line}", end="", flush=True)

    def wait_for_words(self, text, since=0):
        wait_for(lambda: any(text in line for line in self.words[since:]) or self.process.poll() is not None, text)
        check(any(text in line for line in self.words[since:]), f"the plug-in has ended, and has not said {text!r}")

    def end(self, number=signal.SIGTERM):
        """The exit status."""
        self.process.send_signal(number)
        status = self.process.wait(LIMIT)
        self.reader.join(LIMIT)
        return status

    def kill(self):
        """The plug-in and its vcudads."""
        self.process.kill()
        self.process.wait()
        for process in self.daemons().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def daemons(self):
        """Process ids of the units' vcudads by the unit's name."""
        found = {}
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path("/proc", process, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            sockets = [words[i + 1] for i, word in enumerate(words[:-1]) if word in (b"--socket", b"--vhost-socket")]
            if sockets and sockets[0].startswith(os.fsencode(f"{self.run}/")) and b"/probe" not in sockets[0]:
                found[os.fsdecode(sockets[0]).split("/")[-2]] = int(process)
        return found

    def starts_again(self, before):
        """Waits for another vcudad of each unit; `before` has those of an earlier run."""
        for name in before:
            self.wait_for_words(f"{name} has ")
        after = self.daemons()
        check(after.keys() == before.keys() and not set(after.values()) & set(before.values()), f"{before} {after}")

    @contextlib.contextmanager
    def broken_state(self):
        """No file can be written in the place of the file of state, as on a full disk."""
        path, kept = self.top / "state/units.json", self.top / "kept.json"
        path.rename(kept)
        path.mkdir()
        yield
        path.rmdir()
        kept.rename(path)

    def specification(self, cdi_name):
        """The CDI file of a unit, and its only device's edits."""
        name = cdi_name.partition("=")[2]
        specification = json.loads((self.cdi / f"virtio-cuda-{name}.json").read_text())
        (device,) = specification["devices"]
        check(device["name"] == name and specification["kind"] == cdi_name.partition("=")[0], specification)
        return specification, device["containerEdits"]

    def listed(self, build):
        """The vcudads of the node, as `vcuda vm list` shows them."""
        r = subprocess.run([f"{build}/cli/vcuda", "vm", "list", "--json"], env=dict(os.environ, VCUDA_CONTROL=f"{self.top}/control"),
                           capture_output=True, text=True, check=False, timeout=LIMIT)
        check(r.returncode == 0, r.stderr)
        return json.loads(r.stdout)

    def environment(self, cdi_name):
        """The environment of a program that has the container's socket."""
        _, edits = self.specification(cdi_name)
        (mount,) = edits["mounts"]
        check(mount["containerPath"] == "/run/vcuda", mount)
        return dict(os.environ, VCUDA_SOCKET=f"{mount['hostPath']}/socket", VCUDA_TRANSPORT="local")

    @contextlib.contextmanager
    def steady(self, build, cdi_name):
        """A program of the container that computes until it is ended."""
        environment = dict(self.environment(cdi_name), LD_LIBRARY_PATH=f"{build}/guest/lib")
        with subprocess.Popen([f"{build}/test/local/steady", "100000"], stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                check(process.stdout.readline() == "ready\n", "the program does not start")
                yield process
            finally:
                process.kill()

    def memory_mib(self, build, cdi_name):
        """The memory of each GPU, as a program of the container sees it."""
        r = subprocess.run([f"{build}/cli/vcuda", "smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                           env=self.environment(cdi_name), capture_output=True, text=True, check=False, timeout=LIMIT)
        check(r.returncode == 0, f"{cdi_name} does not answer: {r.stdout}{r.stderr}")
        return set(map(int, r.stdout.split()))


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="v") as top:
        yield top
