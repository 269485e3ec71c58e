#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda vm list`, `kill`, `set`, `vcuda top` and `metrics`: test-vms.py VCUDA VHOST_TESTS SCENARIO, with VCUDAD and FAKE_WORKER set"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

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


def values(text):
    """The samples of a text in Prometheus's format, which is checked: {(name, labels): value}."""
    found, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            check(name not in types and kind in ("gauge", "counter"), line)
            check(name.endswith("_total") == (kind == "counter"), line)
            types[name] = kind
            last = name
        elif not line.startswith("# HELP "):
            sample = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.e+]+)', line)
            check(sample and sample[1] == last, f"{line!r} is no sample of {last}")
            labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample[2] or ""))
            key = sample[1], tuple(sorted(labels.items()))
            check(key not in found, f"{line!r} is there twice")
            found[key] = float(sample[3])
    return found


def value(found, name, **labels):
    """The value of the only sample with these labels among others."""
    matching = [number for (other, pairs), number in found.items() if other == name and set(labels.items()) <= set(pairs)]
    check(len(matching) == 1, f"{name} {labels}: {matching} in {found}")
    return matching[0]


def ask(socket_family, address, request=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
    with socket.socket(socket_family) as s:
        s.connect(address)
        s.sendall(request)
        answer = b""
        while part := s.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    check(length and int(length[1]) == len(body), answer)
    return head.split(b"\r\n")[0].decode(), body.decode()


def metrics():
    """The text for Prometheus, printed and over HTTP."""
    check(values(vcuda("metrics").stdout) == {("vcuda_all_answered", ()): 1}, "none runs")
    with daemons("one", 'two"\\') as (one, two):
        client = vmm.Client(one)
        client.attach()
        vcuda("vm", "set", "one", "max-device-memory=5G")
        found = values(vcuda("metrics").stdout)
        pid = str(one.process.pid)
        check(value(found, "vcuda_quota_used", daemon_pid=pid, quota="max-contexts") == 1, found)
        check(value(found, "vcuda_quota_limit", daemon_pid=pid, quota="max-device-memory") == 5 << 30, found)
        check(value(found, "vcuda_quota_refused_total", daemon_pid=str(two.process.pid), quota="max-contexts") == 0, found)
        check(value(found, "vcuda_process_host_memory_bytes", daemon="one", pid=str(os.getpid()), kind="local") > 0, found)
        names = [name for name, pairs in found if dict(pairs).get("daemon_pid") == str(two.process.pid)]
        check("vcuda_uptime_seconds" in names and "vcuda_process_host_memory_bytes" not in names and "vcuda_share" not in names, names)
        check(not [pairs for name, pairs in found if name == "vcuda_quota_limit" and dict(pairs)["quota"] == "max-pinned"], "a limit that is none")
        only = values(vcuda("metrics", "--control", f"{CONTROL}/{two.process.pid}").stdout)
        check({dict(pairs).get("daemon_pid") for _, pairs in only} == {None, str(two.process.pid)}, only)
        with tempfile.NamedTemporaryFile() as file:
            check("Address already in use" in vcuda("metrics", "--listen", file.name, status=125).stderr, "a file is no socket")
            check(os.path.exists(file.name), "the file is gone")
        path = f"{CONTROL}-metrics"
        for _ in range(2):  # the second finds the socket that the first has left
            with serving(path, path) as p:
                check(os.stat(path).st_mode & 0o777 == 0o600, "others may connect")
                status, text = ask(socket.AF_UNIX, path)
                over = values(text)
                check(status == "HTTP/1.1 200 OK" and set(over) == set(found), f"{status} {text}")
                check(ask(socket.AF_UNIX, path, b"GET / HTTP/1.1\r\n\r\n")[0] == "HTTP/1.1 404 Not Found", "another path")
                check(ask(socket.AF_UNIX, path, b"POST /metrics HTTP/1.1\r\n\r\n")[0] == "HTTP/1.1 405 Method Not Allowed", "another method")
                check("Address already in use" in vcuda("metrics", "--listen", path, status=125).stderr, "a second one on the socket")
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    port = free.getsockname()[1]
                p.kill()
        with serving(str(port), ("127.0.0.1", port)) as p:
            check(set(values(ask(socket.AF_INET, ("127.0.0.1", port))[1])) == set(found), "over TCP")
            with socket.create_connection(("127.0.0.1", port)) as slow:  # is cut off, however often it sends
                sent = time.monotonic()
                with contextlib.suppress(ConnectionError):
                    while time.monotonic() < sent + 60 and not select.select([slow], [], [], 0.2)[0]:
                        slow.sendall(b"G")
                check(time.monotonic() < sent + 60, "a slow client is served for ever")
            slow_clients(("127.0.0.1", port))
            with socket.create_connection(("127.0.0.1", port)) as slow:
                slow.sendall(b"G")
                p.terminate()
                check(p.wait() == 128 + 15, p.returncode)
        os.unlink(path)
        client.close()
    for expected, *args in (("not 'x'", "--listen", "x"), ("not '65536'", "--listen", "65536"), ("Not a directory", "--listen", "/dev/null/x"),
                            ("usage:", "x"), ("usage:", "--nope")):
        check(expected in vcuda("metrics", *args, status=125).stderr, args)


@contextlib.contextmanager
def serving(where, address):
    """`vcuda metrics --listen`, which listens."""
    with subprocess.Popen([VCUDA, "metrics", "--listen", where], env=dict(os.environ, VCUDA_CONTROL=CONTROL)) as p:
        try:
            while ask_refused(address):
                check(p.poll() is None, "it has ended")
                time.sleep(0.02)
            yield p
        finally:
            p.kill()


def is_cut_off(client):
    return bool(select.select([client], [], [], 0)[0])


def slow_clients(address):
    """Clients that do not send a whole request hold up no other, not even with all places in use."""
    for count in (1, 40):
        for _ in range(5):  # on a busy machine the slow clients' time may end before the answer
            with contextlib.ExitStack() as stack:
                slow = []
                for _ in range(count):
                    slow.append(stack.enter_context(socket.create_connection(address)))
                    slow[-1].sendall(b"GET")
                check(ask(socket.AF_INET, address)[0] == "HTTP/1.1 200 OK", f"beside {count} slow clients")
                # The last of them is still served; of 40 the first has lost its place.
                if not is_cut_off(slow[-1]) and is_cut_off(slow[0]) == (count > 1):
                    break
        else:
            check(False, f"{count} slow clients hold up another one")


def ask_refused(address):
    """Whether nothing listens at the address."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as s:
        return s.connect_ex(address) != 0


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
    for command in (["vm", "set"], ["vm", "set", "one"], ["vm", "kill"], ["vm", "exports"], ["vm", "free"], ["vm", "list", "x"], ["vm", "list", "--reason", "x"], ["top", "x"]):
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
        # A daemon that does not answer is reported, and does not hide the others.
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        silent.bind(f"{CONTROL}/1")
        silent.listen()
        r = vcuda("vm", "list", status=125)
        check("does not answer" in r.stderr and str(two.process.pid) in r.stdout, r.stdout + r.stderr)
        silent.close()


globals()[sys.argv[3]]()
