#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configuration files of vcudad, and `vcuda config`: test-config.py VCUDA VHOST_TESTS SCENARIO, with VCUDAD and FAKE_WORKER set"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, sys.argv[2])
import vmm  # noqa: E402  pylint: disable=wrong-import-position

VCUDA = sys.argv[1]
FOLDER = tempfile.TemporaryDirectory(prefix="vcuda-test-")
TOP = pathlib.Path(FOLDER.name)
CONTROL = TOP / "control"


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(*command, status=0, **env):
    r = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=vmm.LIMIT,
                       env={**os.environ, "VCUDA_DAEMON": vmm.VCUDAD, "VCUDA_CONTROL": str(CONTROL), **env})
    check(r.returncode == status, f"{command}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r


def config(*arguments, status=0):
    return run(VCUDA, "config", *arguments, status=status)


def write(name, text):
    path = TOP / name
    path.write_text(text)
    return path


def names(text):
    """Options of `vcuda config show`: {name: (given, value)}"""
    found = {}
    for comment, name, value in re.findall(r"^(#?)([a-z-]+) =(.*)$", text, re.M):
        check(name not in found, f"{name} is there twice")
        found[name] = (not comment, value.strip())
    return found


def mistakes():
    """Each mistake has a line with the file and the line's number, and is counted."""
    path = write("web.conf", "# comment\n\n  max-contexts=7\t\nmax-contexs = 2\nqqqqqqqq = 1\nbackend = gpu\nOPTIONS=--max-contexts 7\nverbose\n"
                 "register-ram = maybe\nversion = yes\nready-fd = 3\nmax-contexts = 8\nmax-pinned = 3X\ncpus = 1-\nsocket-mode = 999\nname = a/b\n"
                 "cache = ../x\nsandbox = some\nwarm = -1\nwarm-device = x\nshare =\nworker-user = root\ncontrol =\n")
    expected = {4: "no option max-contexs: do you mean max-contexts?", 5: "no option qqqqqqqq: each line", 6: "backend = gpu: choose auto, cuda or cpu",
                7: "no option OPTIONS: each line", 8: 'there is no "="', 9: "give yes or no", 10: "version is an option of the command line only",
                11: "ready-fd is an option of the command line only", 12: "max-contexts is in line 3 already", 13: "a size such as",
                14: "a list such as", 15: "octal number from 0 to 777", 16: "letters, digits", 17: "letters, digits", 18: "choose strict",
                19: "number from 0 to 64", 20: "number from 0 to 63", 21: "share = : give a number from 1", 22: "but not root", 23: "give a value"}
    r = config("check", path, status=1)
    lines = r.stderr.splitlines()
    check(len(lines) == len(expected) and r.stdout == f"1 file, {len(expected)} mistakes\n", r.stdout + r.stderr)
    for (number, text), line in zip(expected.items(), lines):
        check(line.startswith(f"{path}:{number}: error: ") and text in line, f"{line}: not line {number}, {text}")
    # vcudad says the same, and does not start.
    r = run(vmm.VCUDAD, "--socket", TOP / "socket", "--config", path, status=2)
    check(r.stderr.splitlines() == lines, r.stderr)
    for name, data in (("zero.conf", b"verbose\0 = yes\n"), ("large.conf", b"#\n" * (1 << 20))):
        (TOP / name).write_bytes(data)
        check("no text of at most 1 MiB" in config("check", TOP / name, status=1).stderr, name)
    check("No such file" in config("check", TOP / "missing.conf", status=1).stderr, "a file that is missing")
    check("No such file" in run(vmm.VCUDAD, "--config", TOP / "missing.conf", status=2).stderr, "a file that is missing")
    for arguments in ([], ["dance"], ["show", "a", "b"]):
        check("usage: vcuda config" in config(*arguments, status=125).stderr, arguments)
    check("no vcudad here" in run(VCUDA, "config", "show", status=125, VCUDA_DAEMON=str(TOP / "vcudad")).stderr, "without vcudad")


def owner():
    """Root's vcudad takes a file that only root can write to; another user's takes what that user gives it."""
    path = write("web.conf", "max-contexts = 7\n")
    strange = ((0, 0o664, f"{path}: error: users other than root can write to the file (mode 0664): chmod go-w {path}\n"),
               (0, 0o602, f"{path}: error: users other than root can write to the file (mode 0602): chmod go-w {path}\n"),
               (1234, 0o644, f"{path}: error: the file belongs to user 1234, and root's vcudad takes a file of root only: chown root {path}\n"))
    if os.geteuid():
        path.chmod(0o666)
        config("check", path)
        print("only root's vcudad refuses files")
        sys.exit(77)
    link = TOP / "link.conf"
    link.symlink_to(path)
    for uid, mode, text in strange:
        os.chown(path, uid, 0)
        path.chmod(mode)
        check(config("check", path, status=1).stderr == text, mode)
        for arguments in (path,), (f"-{path}",):
            r = run(vmm.VCUDAD, "--socket", TOP / "socket", "--config", *arguments, status=2)
            check(r.stderr == text, r.stderr)
        check(text.replace(str(path), str(link)) == config("check", link, status=1).stderr, "behind a link")
    for mode in 0o644, 0o600, 0o640:
        os.chown(path, 0, 1234)
        path.chmod(mode)
        config("check", path)
    TOP.chmod(0o711)
    path.chmod(0o666)
    try:
        ordinary = subprocess.run([vmm.VCUDAD, "--check-config", path], capture_output=True, text=True, check=False, user=1234,
                                  timeout=vmm.LIMIT)
    except PermissionError:  # other users may not enter the folder of the build
        return
    check(ordinary.returncode == 0, ordinary.stderr)


def machine():
    """Things that this machine lacks are warnings."""
    path = write("web.conf", "swap-directory = /dev/null/swap\nworker = /dev/null/worker\ncontrol = /dev/null/x/control\nvhost-socket = /dev/null/x/socket\n"
                 "cpus = 1023\narbiter = /dev/null/x/arbiter\n")
    r = config("check", path)
    check(r.stdout == "1 file, 0 mistakes\n", r.stdout)
    for line, name in enumerate(("swap-directory", "worker", "control", "vhost-socket", "cpus", "arbiter"), 1):
        check(f"{path}:{line}: warning: {name}: " in r.stderr, f"{name}: {r.stderr}")
    check(len(r.stderr.splitlines()) == 6, r.stderr)
    if not os.path.exists("/dev/nvidiactl"):
        path = write("gpu.conf", "backend = cuda\nwarm-device = 62\n")
        r = config("check", path)
        check(f"{path}:1: warning: backend: there is no /dev/nvidiactl" in r.stderr and f"{path}:2: warning: warm-device: /dev/nvidia62" in r.stderr, r.stderr)


def together():
    """Options of one file, and files of several VMs, that do not fit together."""
    for text, line, word in (("\nregister-ram = yes\n", 2, "only a VM"), ("warm = 3\nmax-contexts = 2\n", 1, "more than max-contexts"),
                             ("backend = cuda\nmax-kernel-time = 3\n", 2, "give share as well"), ("min-device-memory = 1M\n", 1, "more than overcommit"),
                             ("sandbox = off\nworker-user = 1234\n", 2, "with a sandbox")):
        path = write("local.conf" if "register" in text else "vm.conf", text)
        r = config("check", path, status=1)
        check(f"{path}:{line}: error: " in r.stderr and word in r.stderr, r.stderr)
        check(len(r.stderr.splitlines()) == 1 + ("backend = cuda" in text and not os.path.exists("/dev/nvidiactl")), r.stderr)
    check(config("check", write("vm.conf", "register-ram = yes\n")).stderr == "", "a unit's socket is not known")

    vms = TOP / "vms"
    vms.mkdir()

    def check_vms(files, status, *expected):
        for path in vms.iterdir():
            path.unlink()
        for name, text in files.items():
            (vms / name).write_text(text)
        (vms / "editor.conf~").write_text("nonsense\n")
        (vms / ".hidden.conf").write_text("nonsense\n")
        r = config("check", vms, status=status)
        check([line.split(":")[:3] for line in r.stderr.splitlines()] == [[f"{vms}/{name}", *rest] for name, *rest in expected], r.stderr)
        check(r.stdout.startswith(f"{len(files)} file"), r.stdout)
    # Sockets, also those of units.
    check_vms({"a.conf": "", "b.conf": "", "local.conf": ""}, 0)
    (TOP / "run").mkdir()
    check_vms({"a.conf": f"vhost-socket = {TOP}/run/a\n", "b.conf": f"share = 1\nvhost-socket = {TOP}/run/a\n", "c.conf": f"socket = {TOP}/run/c\n",
               "d.conf": f"control = {TOP}/run/c\n"}, 1, ["b.conf", "2", " error"], ["d.conf", "1", " error"])
    check_vms({"a.conf": "", "b.conf": "name = a\ncache = x\n", "c.conf": "cache = x\n", "d.conf": "control = none\n", "e.conf": "control = none\n"}, 0,
              ["b.conf", "1", " warning"], ["c.conf", "1", " warning"])
    # Minimums, as the arbiter lets VMs in. It has never heard of the VM with another arbiter, and of the one without overcommit.
    half = "overcommit = 8G\nmin-device-memory = 4G\n"
    check_vms({"a.conf": half, "b.conf": half}, 0)
    check_vms({"a.conf": half, "b.conf": "share = 2\n" + half, "c.conf": "", "d.conf": half, "e.conf": half + f"arbiter = {TOP}/arbiter\n"}, 1,
              ["d.conf", "2", " error"])
    check_vms({"a.conf": half, "b.conf": "overcommit = 8G\nmin-device-memory = 5G\n", "c.conf": half}, 1, ["b.conf", "2", " error"])
    check_vms({"a.conf": half, "b.conf": "overcommit = 3G\n"}, 1, ["b.conf", "1", " error"])


def show():
    """All options of vcudad with their defaults, which are those of the help; what is shown is a file that has the same effect."""
    text = run(vmm.VCUDAD, "--help").stdout
    options = names(config("show").stdout)
    shown = {name for name in re.findall(r"^  --([a-z-]+)", text, re.M)}
    check(shown - set(options) == {"config", "ready-fd", "check-config", "print-config", "version", "help"} and not set(options) - shown,
          f"{shown ^ set(options)}")
    check(options["max-contexts"] == (False, "64") and options["max-pinned"] == (False, "") and options["warm-device"] == (False, "0"), options)
    for name, (_, value) in options.items():
        block = re.search(rf"^  --{name}( .*|\n(?: {{8}}.*\n)*)(\n {{8}}.*)*", text + "\n", re.M).group(0)
        block = " ".join(block.split())
        check(not value or value in ("yes", "no") or block.endswith(f"(default: {value})"), f"{name}: {value}, and the help says {block}")
    given = {"max-contexts": "7", "max-pinned": "3G", "max-device-memory": "1536M", "share": "9", "overcommit": "1T", "cpus": "0", "once": "yes",
             "warm-device": "none", "socket-mode": "0640", "swap-directory": "/var/tmp/a b=c # d", "sandbox": "log", "name": "x", "client-timeout": "77"}
    path = write("x.conf", "".join(f"{name} = {value}\n" for name, value in given.items()))
    shown = config("show", path).stdout
    check({name: value for name, (is_given, value) in names(shown).items() if is_given} == given, shown)
    check(config("show", write("y.conf", shown)).stdout == shown, "what is shown has another effect")
    check(config("show", write("z.conf", re.sub(r"^#([a-z-]+ = )", r"\1", shown, flags=re.M))).stdout.count("\n#") < shown.count("\n#"), "defaults")
    check(config("check", TOP / "z.conf").stdout == "1 file, 0 mistakes\n", "defaults are no mistakes")


def start():
    """A daemon has the options of its files; those of the command line come first, wherever it names the files."""
    first = write("first.conf", "max-contexts = 7\nmax-streams = 9\nmax-pinned = 3G\nname = first\n")
    second = write("second.conf", "max-streams = 11\nonce = yes\n")
    ready, theirs = os.pipe()
    daemon = subprocess.Popen([vmm.VCUDAD, "--worker", vmm.FAKE_WORKER, "--max-contexts", "5", "--once=no", "--socket", TOP / "socket", "--config",
                               f"-{first}", "--config", second, "--config", f"-{TOP}/missing", "--ready-fd",
                               str(theirs)], env={**os.environ, "VCUDA_CONTROL": str(CONTROL)}, pass_fds=[theirs])
    os.close(theirs)
    with os.fdopen(ready) as pipe:
        check(pipe.read() == "ready\n", "vcudad does not start")
    vm, = json.loads(run(VCUDA, "vm", "list", "--json").stdout)
    limits = {name: vm["quotas"][name]["limit"] for name in ("max-contexts", "max-streams", "max-pinned", "max-handles")}
    daemon.send_signal(signal.SIGTERM)
    check(daemon.wait(vmm.LIMIT) == 0, "vcudad fails at its end")
    check(vm["name"] == "first" and limits == {"max-contexts": 5, "max-streams": 11, "max-pinned": 3 << 30, "max-handles": 2097152}, vm)
    r = run(vmm.VCUDAD, "--once=maybe", "--socket", "/x", status=2)
    check("--once maybe: give yes or no" in r.stderr, r.stderr)
    r = run(vmm.VCUDAD, "--config", first, "--max-contexts", "0", "--socket", "/x", status=2)
    check("--max-contexts 0: give a number from 1" in r.stderr, r.stderr)


globals()[sys.argv[3]]()
