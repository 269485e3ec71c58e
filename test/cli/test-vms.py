#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda vm list`, `kill`, `set` and `vcuda top`: test-vms.py VCUDA VHOST_TESTS SCENARIO, with VCUDAD and FAKE_WORKER set"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[2])
import vmm  # noqa: E402  pylint: disable=wrong-import-position

VCUDA = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory(prefix="vcuda-test-")
CONTROL = os.path.join(FOLDER.name, "control")


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def vcuda(*arguments, status=0, **env):
    r = subprocess.run([VCUDA, *arguments], capture_output=True, text=True, env=dict(os.environ, VCUDA_CONTROL=CONTROL, **env), check=False,
                       timeout=vmm.LIMIT)
    check(r.returncode == status, f"{arguments}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r


def listed():
    return {daemon["name"]: daemon for daemon in json.loads(vcuda("vm", "list", "--json").stdout)}


class Daemon:
    """A vcudad for local programs with its control socket in the common folder."""

    def __init__(self, name, *options):
        self.local_path = os.path.join(FOLDER.name, name + ".sock")
        ready, theirs = os.pipe()
        self.process = subprocess.Popen([vmm.VCUDAD, "--worker", vmm.FAKE_WORKER, "--socket", self.local_path, "--ready-fd", str(theirs),
                                         *options], env=dict(os.environ, VCUDA_CONTROL=CONTROL), pass_fds=[theirs])
        os.close(theirs)
        with os.fdopen(ready) as pipe:
            check(pipe.read() == "ready\n", "vcudad does not start")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(vmm.LIMIT)


@contextlib.contextmanager
def daemons(*names):
    running = [Daemon(name) for name in names]
    try:
        yield running
    finally:
        for daemon in running:
            if daemon.process.poll() is None:
                daemon.stop()


def listing():
    check("no vcudad of this user runs" in vcuda("vm", "list").stderr, "none runs")
    check(vcuda("vm", "list", "--json").stdout == "[]\n", "none runs, as JSON")
    with daemons("one", "two") as (one, two):
        client = vmm.Client(one)
        worker = client.attach()
        found = listed()
        check(set(found) == {"one", "two"}, found)
        daemon = found["one"]
        check((daemon["pid"], daemon["local_socket"], daemon["vhost_socket"], daemon["vm"]) == (one.process.pid, one.local_path, None, None), daemon)
        process, = daemon["processes"]
        check((process["kind"], process["pid"], process["worker"]) == ("local", os.getpid(), worker), process)
        check(process["worker_memory"] > 0, process)
        check(daemon["quotas"]["max-contexts"] == {"unit": "count", "used": 1, "limit": 64, "refused": 0}, daemon)
        check(found["two"]["processes"] == [], found)
        lines = vcuda("vm", "list").stdout.splitlines()
        check(len(lines) == 3 and lines[0].split()[:2] == ["NAME", "PID"], lines)
        check(lines[1 + (one.process.pid > two.process.pid)].split()[:4] == ["one", str(one.process.pid), "-", "1"], lines)
        only = json.loads(vcuda("vm", "list", "--json", "--control", f"{CONTROL}/{two.process.pid}").stdout)
        check([daemon["name"] for daemon in only] == ["two"], only)
        client.close()
    check(vcuda("vm", "list", "--json").stdout == "[]\n", "sockets are left")
    # A path may have anything but NUL; bytes that are not UTF-8 become U+FFFD.
    strange = Daemon('q"\\\t\u00fc\udcff')
    daemon, = listed().values()
    check(daemon["name"] == "q__________"[:len(daemon["name"])] and len(daemon["name"]) == 7, daemon)
    check(daemon["local_socket"] == strange.local_path.replace("\t", "?").replace("\udcff", "\ufffd"), daemon)
    strange.stop()


def killing():
    with daemons("one", "two") as (one, two):
        clients = [vmm.Client(daemon) for daemon in (one, one, two)]
        workers = [client.attach() for client in clients]
        check("no VM of the name three" in vcuda("vm", "kill", "three", status=125).stderr, "a name that there is not")
        check("guest process 1 has no worker" in vcuda("vm", "kill", "one", "1", status=125).stderr, "a process that there is not")
        check("give the number" in vcuda("vm", "kill", "one", "x", status=125).stderr, "no process")
        check(vcuda("vm", "kill", "--reason", "of a test", "one", str(os.getpid())).stdout == "killed 2\n", "kill")
        check(clients[0].socket.recv(10) == b"" and clients[1].socket.recv(10) == b"", "the clients were not told")
        check(os.path.exists(f"/proc/{workers[2]}") and len(listed()["two"]["processes"]) == 1, "the neighbour was killed")
        # By the process id of the daemon; all that it serves.
        check(vcuda("vm", "kill", str(two.process.pid)).stdout == "killed 1\n", "kill all")
        for client in clients:
            client.close()
        for daemon in (one, two):
            check(daemon.process.poll() is None, "the daemon ended")
    first, second = Daemon("a", "--name", "same"), Daemon("b", "--name", "same")
    check("2 VMs have the name same" in vcuda("vm", "kill", "same", status=125).stderr, "an ambiguous name")
    check(vcuda("vm", "kill", str(first.process.pid)).stdout == "killed 0\n", "by process id")
    first.stop()
    second.stop()


def setting():
    with daemons("one"):
        vcuda("vm", "set", "one", "max-contexts=7", "max-pinned=3G", "max-device-memory=5G", "max-streams=9")
        quotas = listed()["one"]["quotas"]
        check(quotas["max-device-memory"] == {"unit": "bytes", "used": 0, "limit": 5 << 30, "refused": 0}, quotas)
        check(quotas["max-streams"] == {"unit": "count", "limit": 9, "refused": 0}, quotas)
        check((quotas["max-contexts"]["limit"], quotas["max-pinned"]["limit"]) == (7, 3 << 30), quotas)
        for pair, text in (("max-contexts=0", "from 1 to 1024"), ("max-pinned=x", "such as 512M"), ("nothing=1", "there are max-contexts"),
                           ("max-contexts", "QUOTA=VALUE"), ("max-contexts=", "from 1"), ("max-contexts=1 2", "from 1"),
                           ("max-contexts=1\nkill all", "one line"), ("max-pinned=" + "9" * 600, "too long")):
            check(text in vcuda("vm", "set", "one", pair, status=125).stderr, f"{pair}: {text}")
        check(listed()["one"]["quotas"] == quotas, "a refused value was taken")
    for command in (["vm", "set"], ["vm", "set", "one"], ["vm", "kill"], ["vm", "list", "x"], ["vm", "list", "--reason", "x"], ["top", "x"]):
        check("usage:" in vcuda(*command, status=125).stderr, command)
    for command in (["vm", "list", "--help"], ["vm", "kill", "--help"], ["top", "--help"]):
        check("usage:" in vcuda(*command).stdout, command)


def top():
    check("no vcudad" in vcuda("top", "--once").stderr, "none runs")
    with daemons("one") as (one,):
        client = vmm.Client(one)
        worker = client.attach()
        lines = vcuda("top", "--once").stdout.splitlines()
        check(lines[1].split()[0] == "one" and "max-contexts 1/64, max-pinned 0/-" in lines[2], lines)
        processes = next(i for i, line in enumerate(lines) if line.split()[0] == "PROCESS")
        check(all(line.split()[0].startswith("max-") for line in lines[2:processes]), lines)
        check(lines[processes + 1].split()[:5] == [str(os.getpid()), "local", str(os.geteuid()), "running", str(worker)], lines)
        # Again and again, to a pipe without control characters.
        process = subprocess.Popen([VCUDA, "top", "--json"], stdout=subprocess.PIPE, text=True, env=dict(os.environ, VCUDA_CONTROL=CONTROL))
        for _ in range(2):
            check(json.loads(process.stdout.readline())[0]["name"] == "one", "a line of JSON")
        process.stdout.close()
        process.terminate()
        process.wait(vmm.LIMIT)
        client.close()


def stale():
    with daemons("one", "two") as (one, two):
        path = f"{CONTROL}/{one.process.pid}"
        one.stop(signal.SIGKILL)
        check(f"{path} is stale" in vcuda("vm", "list", "--control", path, status=125).stderr, "a stale socket that is named")
        r = vcuda("vm", "list")
        check(f"{path} was left behind" in r.stderr and not os.path.exists(path), r.stderr)
        check(str(two.process.pid) in r.stdout, r.stdout)
        check("No such file" in vcuda("vm", "list", "--control", path, status=125).stderr, "no socket")
        # A daemon that stands still is told of, and does not hide the others.
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        silent.bind(f"{CONTROL}/1")
        silent.listen()
        r = vcuda("vm", "list", status=125)
        check("does not answer" in r.stderr and str(two.process.pid) in r.stdout, r.stdout + r.stderr)
        silent.close()


globals()[sys.argv[3]]()
