#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `vcuda` command: test-cli.py VCUDA BUILD_FOLDER SCENARIO"""

import contextlib
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

VCUDA = sys.argv[1]
FOLDER = pathlib.Path(sys.argv[2])
BACKEND = ["--backend", "cpu"]


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def vcuda(*args, **env):
    environment = {k: v for k, v in dict(os.environ, **env).items() if v is not None}
    return subprocess.run([VCUDA, *args], capture_output=True, text=True, env=environment, check=False)


def expect(status, stderr, *args, **env):
    r = vcuda(*args, **env)
    check(r.returncode == status, f"{args}: status {r.returncode}, not {status}: {r.stderr}")
    check(re.search(stderr, r.stderr), f"{args}: said {r.stderr!r}, not {stderr!r}")
    return r


def statuses():
    run = ["run", *BACKEND, "--"]
    expect(0, r"\A\Z", *run, "true")
    expect(7, r"\A\Z", *run, "sh", "-c", "exit 7")
    expect(128 + 9, r"\A\Z", *run, "sh", "-c", "kill -KILL $$")
    expect(127, "nosuch-program: command not found", *run, "nosuch-program")
    expect(127, "./nosuch: No such file", *run, "./nosuch")
    expect(126, "/etc/passwd: Permission denied", *run, "/etc/passwd")
    expect(126, "/tmp: Is a directory", *run, "/tmp")
    # The host's own driver is not to be found in its place.
    expect(125, "/dev/null/libcuda.so.1: Not a directory", *run, "true", VCUDA_GUEST_LIB="/dev/null")
    # Options behind the program are the program's, with and without "--".
    r = expect(0, r"\A\Z", "run", *BACKEND, "echo", "--backend", "x")
    check(r.stdout == "--backend x\n", r.stdout)
    # A VM is not prepared for what cannot be run: no cache can be made here.
    nowhere = {"VCUDA_CACHE": "/dev/null/cache"}
    expect(127, "'./nosuch' cannot be run: No such file", "vm", "run", "--", "./nosuch", **nowhere)
    expect(125, "--cpus: '999' is not possible", "vm", "run", "--cpus", "999", "--", "true", **nowhere)
    expect(125, "/dev/null/cache", "vm", "run", "--", "true", **nowhere)


def usage():
    expect(125, "auto, cuda or cpu, not 'gpu'", "run", "--backend", "gpu", "--", "true")
    expect(125, "no option", "run", "--nope", "true")
    expect(125, "which program", "run")
    expect(125, "'dance' is not a command", "dance")
    expect(125, "which command", )
    for command in (["help"], ["--help"], ["run", "--help"], ["doctor", "--help"], ["vm", "run", "--help"], ["ptx", "--help"]):
        check("usage: vcuda" in expect(0, r"\A\Z", *command).stdout, f"{command} prints no usage")
    expect(125, "usage: vcuda ptx FILE", "ptx")
    expect(1, "no machine code of an NVIDIA GPU|is not installed", "ptx", VCUDA)
    expect(1, "/nowhere: No such file or directory|is not installed", "ptx", "/nowhere")
    check(re.match(r"vcuda \d+\.\d+", expect(0, r"\A\Z", "--version").stdout), "no version")


def signals():
    """A signal to vcuda reaches the program, and vcuda returns the program's status."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # a shell cannot trap signals that were ignored at its start (nohup)
        script = f"trap 'exit 42' {int(number)}; echo ready; while :; do sleep 0.05; done"
        p = subprocess.Popen([VCUDA, "run", *BACKEND, "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
        check(p.stdout.readline() == "ready\n", "the program does not start")
        p.send_signal(number)
        check(p.wait(20) == 42, f"{number.name}: status {p.returncode}")


def loader():
    """Our runtime library is the one that is loaded, whatever the program's rpath says, and wherever ours is."""
    ours = os.path.join(os.path.dirname(VCUDA), "../guest/lib")
    for kind in ("11.0-rpath", "11.0-runpath", "13-rpath", "13-runpath"):
        program = FOLDER / f"which-cudart-{kind}"
        native = subprocess.run([program], check=False)
        check(native.returncode == 1, f"{kind}: natively the program gets {native.returncode}")
        expect(0, "", "run", *BACKEND, "--", str(program))
        for name in ("a b", "a:b", "a;b"):
            with tempfile.TemporaryDirectory() as parent:
                folder = os.path.join(parent, name)
                shutil.copytree(ours, folder, ignore=shutil.ignore_patterns("math"))
                expect(0, r"\A\Z", "run", *BACKEND, "--", str(program), VCUDA_GUEST_LIB=folder, TMPDIR=parent)
                check(os.listdir(parent) == [name], f"a link is left: {os.listdir(parent)}")


def unversioned():
    """Programs that open libcuda.so and libnvidia-ml.so get ours."""
    program = str(FOLDER / "unversioned")
    expect(0, r"\A\Z", "run", *BACKEND, "--", program)


def old_system():
    """A program under an old kernel works; vcudad there says what it needs, and `vcuda run` what is wrong with a program of musl."""
    refused, steady = str(FOLDER / "refused"), str(FOLDER.parents[1] / "test/local/steady")
    r = expect(0, r"\A\Z", "run", *BACKEND, "--", refused, "kernel", steady, "0")
    check(r.stdout.startswith("ready\n"), r.stdout)
    r = subprocess.run([refused, "kernel", VCUDA, "run", *BACKEND, "--", "true"], capture_output=True, text=True, check=False)
    check(r.returncode == 125 and "vcudad needs Linux 5.4 or later" in r.stderr, r)
    glibc, musl = b"/lib64/ld-linux-x86-64.so.2\0", b"/lib/ld-musl-x86_64.so.1\0"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program"
        image = pathlib.Path(steady).read_bytes()
        check(image.count(glibc) == 1, "the program does not name glibc's loader")
        program.write_bytes(image.replace(glibc, musl.ljust(len(glibc), b"\0")))
        program.chmod(0o755)
        said = re.escape(f"{program} is linked with musl. CUDA needs glibc: our libraries need 2.17 or later")
        check(vcuda("run", *BACKEND, "--", str(program)).stderr.count("linked with musl") == 1, "the message comes once")
        check(re.search(said, vcuda("run", *BACKEND, "--", str(program)).stderr), "no word of musl")


def alive(pid):
    """False also for a process that has ended and that its parent has not waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def private_daemon():
    """The daemon's directory is private to the user, and is removed, also when vcuda itself is killed."""
    with tempfile.TemporaryDirectory(prefix="v") as parent:
        env = {"XDG_RUNTIME_DIR": None, "TMPDIR": parent}
        r = vcuda("run", *BACKEND, "--", "sh", "-c", 'stat -c %a "$(dirname "$VCUDA_SOCKET")"; echo "$VCUDA_SOCKET"', **env)
        mode, path = r.stdout.split()
        check(mode == "700", f"the daemon's directory has mode {mode}")
        check(path.startswith(parent) and not glob.glob(parent + "/*"), f"{path} is left")

        p = subprocess.Popen([VCUDA, "run", *BACKEND, "--", "sh", "-c", "echo ready; exec sleep 100"], stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, TMPDIR=parent, XDG_RUNTIME_DIR=parent))
        check(p.stdout.readline() == "ready\n", "the program does not start")
        tree = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(p.pid)], capture_output=True, text=True, check=False).stdout
        daemons = [int(line.split()[0]) for line in tree.splitlines() if "vcudad" in line]
        others = [int(line.split()[0]) for line in tree.splitlines() if "vcudad" not in line]
        check(len(daemons) == 1, f"children of vcuda: {tree!r}")
        p.kill()
        p.wait()
        end = time.monotonic() + 10
        while alive(daemons[0]):
            check(time.monotonic() < end, "the daemon outlives vcuda")
            time.sleep(0.05)
        for pid in others:
            os.kill(pid, signal.SIGKILL)


def early_worker():
    """A daemon of the program's own starts the worker with it, on the device that the program will take first."""
    show = ["sh", "-c", 'for p in $(cat /proc/$PPID/task/*/children); do tr "\\0" " " < /proc/$p/cmdline; done; echo; echo "$CUDA_VISIBLE_DEVICES"']
    for visible, device in ((None, "0"), ("2,1", "2"), ("7", "7"), ("", "none"), ("-1", "none"), ("64", "none"), ("123456789012", "none"),
                            ("GPU-1234", "none"), ("1x", "none")):
        r = expect(0, r"\A\Z", "run", *BACKEND, "--", *show, CUDA_VISIBLE_DEVICES=visible)
        commands, program = r.stdout.split("\n")[:2]
        check(f"--warm 1 --warm-once --warm-device {device} --ready-fd" in commands, f"{visible}: {commands}")
        check(program == (visible or ""), f"the program got {program!r}")
    # queries need no context
    for command, made in ((["smi"], False), (["run"], True)):
        r = vcuda(*command, *BACKEND, *(["--", "sleep", "3"] if made else []), VCUDA_TIMES="1")
        check(r.returncode == 0 and "worker: back end is initialised" in r.stderr, f"{command}: {r.stderr}")
        check(("worker: has a context" in r.stderr) == made, f"{command}: {r.stderr}")
    # the worker's driver is not told to choose, as the program's library does
    show = ["sh", "-c", "for p in $(cat /proc/$PPID/task/*/children); do tr '\\0' '\\n' < /proc/$p/environ | grep ^CUDA_; echo end; done"]
    r = expect(0, r"\A\Z", "run", *BACKEND, "--", *show, CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    # the daemon has one, the program two
    check(r.stdout.count("CUDA_DEVICE_ORDER=PCI_BUS_ID") == 2 and r.stdout.count("CUDA_VISIBLE_DEVICES=0") == 1, r.stdout)


@contextlib.contextmanager
def listening(path, backend="cpu", log=subprocess.DEVNULL, **env):
    """A vcudad with that socket."""
    vcudad = os.path.join(os.path.dirname(VCUDA), "../host/daemon/vcudad")
    command = [vcudad, "--socket", path, "--backend", backend]
    with subprocess.Popen(command, stderr=log, env={**os.environ, **env}) as daemon:
        end = time.monotonic() + 20
        while not (os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode)):
            check(time.monotonic() < end, "vcudad does not listen")
            time.sleep(0.02)
        try:
            yield
        finally:
            daemon.terminate()


def own_driver():
    """A worker whose loader finds our own driver is no client of a vcudad that listens on the default socket."""
    libraries, steady = str(FOLDER.parents[1].resolve() / "guest/libcuda"), FOLDER.parents[1] / "test/local/steady"
    with tempfile.TemporaryDirectory(prefix="v") as parent:
        os.mkdir(f"{parent}/vcuda")
        with open(f"{parent}/log", "w+", encoding="utf-8") as log, listening(f"{parent}/vcuda/socket"), \
                listening(f"{parent}/other", "cuda", log, LD_LIBRARY_PATH=libraries, XDG_RUNTIME_DIR=parent, VCUDA_SOCKET=""):
            r = vcuda("run", "--", steady, "0", VCUDA_SOCKET=f"{parent}/other")
            log.seek(0)
            said = log.read()
            check(r.returncode == 3, f"status {r.returncode}: {r.stderr}{said}")
            check("has no host; it is virtio-cuda's own" in said, said)


def own_socket():
    """A daemon that listens is used, unless a back end is asked for; one that is named and does not listen is an error."""
    with tempfile.TemporaryDirectory(prefix="v") as parent:
        os.mkdir(f"{parent}/vcuda")
        path = f"{parent}/vcuda/socket"
        show = ["sh", "-c", 'echo "$VCUDA_SOCKET"']
        expect(125, "no vcudad listens there", "run", "--", "true", VCUDA_SOCKET=path)
        with listening(path):
            for env in ({"VCUDA_SOCKET": path}, {"VCUDA_SOCKET": None, "XDG_RUNTIME_DIR": parent}):
                r = expect(0, r"\A\Z", "run", "--", *show, **env)
                check(r.stdout.strip() == path, f"{env}: the program got {r.stdout!r}")
            r = expect(0, r"\A\Z", "run", *BACKEND, "--", *show, VCUDA_SOCKET=path)
            check(r.stdout.strip() != path, "--backend does not start a daemon of its own")


def profilers():
    """Python and its scripts find our libcupti before any other; other programs are spared it."""
    r = expect(0, r"\A\Z", "run", *BACKEND, "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH"', LD_LIBRARY_PATH=None)
    ours = r.stdout.split(":")[0]
    both = f"{ours}/libcupti.so.13:{ours}/libcupti.so.12"
    say = "import os; print(os.environ.get('LD_PRELOAD'))"

    def preloaded(*command, expected, **env):
        r = expect(0, r"\A\Z", "run", *BACKEND, "--", *command, **{"LD_PRELOAD": None, "VCUDA_CUPTI": None, **env})
        check(r.stdout.strip() == expected, f"{command} {env}: {r.stdout!r}")

    with tempfile.TemporaryDirectory() as folder:
        scripts = {"direct": f"#!{sys.executable}\n{say}\n", "env": f"#!/usr/bin/env python3\n{say}\n",
                   "long": f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n{say}\n", "shell": '#!/bin/sh\necho "${LD_PRELOAD:-None}" python3\n'}
        for name, text in scripts.items():
            path = pathlib.Path(folder, name)
            path.write_text(text, encoding="ascii")
            path.chmod(0o755)
            preloaded(path, expected="None python3" if name == "shell" else both)
        os.symlink(sys.executable, f"{folder}/other")
        preloaded(f"{folder}/other", "-c", say, expected=both)
    preloaded(sys.executable, "-c", say, expected=both)
    preloaded(sys.executable, "-c", say, expected=f"{ours}/libcuda.so.1:{both}", LD_PRELOAD=f"{ours}/libcuda.so.1")
    preloaded(sys.executable, "-c", say, expected="None", VCUDA_CUPTI="0")
    preloaded("sh", "-c", 'echo "$LD_PRELOAD"', expected=both, VCUDA_CUPTI="1")
    # A library whose DT_RPATH leads to another one gets ours.
    ask = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).wheel_cupti_version())"
    preloaded(sys.executable, "-c", ask, FOLDER / "wheel/libwheel.so", expected="130500")
    preloaded(sys.executable, "-c", ask, FOLDER / "wheel/libwheel.so", expected="4711", VCUDA_CUPTI="0")


def environment():
    """Ours stand first on the loader's path, but for those of mathematics, last; what was on it stays; the daemon's own path has nothing of ours."""
    r = expect(0, r"\A\Z", "run", *BACKEND, "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH"; echo "$VCUDA_TRANSPORT"; echo "$LD_PRELOAD"',
               LD_LIBRARY_PATH="/dev/null/here", LD_PRELOAD=None)
    path, transport, preload = r.stdout.split("\n")[:3]
    ours, rest, math = path.split(":")
    check(os.path.exists(f"{ours}/libcuda.so.1") and rest == "/dev/null/here" and math == f"{ours}/math", path)
    check(transport == "local" and preload == "", r.stdout)
    # vcuda inside vcuda: the inner daemon must not take our libcuda for the driver.
    inner = f'"{VCUDA}" run --backend cpu -- true'
    expect(0, r"\A\Z", "run", *BACKEND, "--", "sh", "-c", inner)


def doctor():
    with tempfile.TemporaryDirectory() as empty:
        r = vcuda("doctor", VCUDA_CACHE=empty, PATH="/usr/bin:/bin")
        check(r.returncode in (0, 1), f"status {r.returncode}")
        for subject in ("vcudad", "vcuda-worker", "guest libraries", "software GPU", "NVIDIA GPU", "vm.max_map_count", "/dev/vcuda",
                        "QEMU with vhost-user-test-device-pci", "virtiofsd", "guest kernel and headers", "guest driver", "KVM"):
            check(re.search(rf"^(ok|note|missing) +{re.escape(subject)}: ", r.stdout, re.M), f"not a word on {subject}:\n{r.stdout}")
        check(r.returncode == 1 and "get-kernel.sh 6.1" in r.stdout, f"an empty cache is not noticed:\n{r.stdout}")
        r = vcuda("doctor", VCUDA_CACHE=empty, VCUDA_DAEMON="/dev/null/vcudad")
        check(re.search(r"^missing vcudad: /dev/null/vcudad", r.stdout, re.M) and "cannot work yet" in r.stdout, r.stdout)
        lines = vcuda("doctor", VCUDA_CACHE=empty).stdout
        r = vcuda("doctor", "--json", VCUDA_CACHE=empty)
        found = json.loads(r.stdout)
        texts = [f"{f['finding']:<8}{f['subject']}: {f['text']}" for f in found["findings"]]
        # Free space changes.
        texts, lines = ([line for line in text if "disk space" not in line] for text in (texts, lines.splitlines()))
        check(texts == [line for line in lines if re.match(r"(ok|note|missing) ", line)], f"{texts}\n{lines}")
        check(all(f["mend"] for f in found["findings"] if f["finding"] == "missing"), r.stdout)
        check(r.returncode == 1 and found["programs"] is None and found["vcuda run"] == "yes" and found["vcuda vm run"] == "no", r.stdout)
        # A container has the guest's part, and a socket.
        path = os.path.join(empty, "s")
        with listening(path):
            r = vcuda("doctor", VCUDA_DAEMON="/dev/null/vcudad", VCUDA_SOCKET=path)
            check(r.returncode == 0 and "CUDA programs can run here.\n" in r.stdout and "1 device: vCUDA Software GPU" in r.stdout and
                  "missing" not in r.stdout, r.stdout)
        r = vcuda("doctor", VCUDA_SOCKET="/dev/null/none")
        check("where none listens" in r.stdout and "CUDA programs" not in r.stdout, r.stdout)


def installed():
    """Files that a package builder installs elsewhere (DESTDIR) run from there."""
    root, meson = FOLDER.parents[1], sys.argv[4]
    with tempfile.TemporaryDirectory() as top:
        r = subprocess.run([meson, "install", "-C", root, "--no-rebuild", "--quiet", "--destdir", top], capture_output=True, text=True,
                           check=False)
        check(r.returncode == 0, f"meson install: {r.returncode}\n{r.stdout}{r.stderr}")
        program, = pathlib.Path(top).glob("**/bin/vcuda")
        steady = root / "test/local/steady"  # opens the libcuda.so.1 of its environment
        r = subprocess.run([program, "run", *BACKEND, "--", "env", "VCUDA_VERBOSE=1", steady, "0"], capture_output=True, text=True,
                           check=False)
        check(r.returncode == 0 and "transport local, back end cpu" in r.stderr, f"status {r.returncode}\n{r.stdout}{r.stderr}")
        r = subprocess.run([program, "run", *BACKEND, "--", FOLDER / "unversioned"], capture_output=True, text=True, check=False)
        check(r.returncode == 0 and not r.stderr, f"unversioned: status {r.returncode}\n{r.stdout}{r.stderr}")


LOAD = """
import ctypes, sys
cuda, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
def ok(result):
    assert result == 0, result
ok(cuda.cuInit(0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0))
ok(cuda.cuCtxSetCurrent(p))
ok(cuda.cuModuleLoadData(ctypes.byref(p), open(sys.argv[1], "rb").read()))
ok(cuda.cuModuleGetFunction(ctypes.byref(p), p, b"empty"))
"""


def ptxas():
    """The stand-in for NVIDIA's assembler: programs load its output, and it reports input that it refuses."""
    def run(*arguments):
        return subprocess.run([sys.argv[4], *arguments], capture_output=True, text=True, check=False)

    with tempfile.TemporaryDirectory() as top:
        ptx, made = f"{top}/a.ptx", f"{top}/a.cubin"
        text = "//\n.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty()\n{\n\tret;\n}\n"
        pathlib.Path(ptx).write_text(text)
        # as JAX calls it, and as Triton does
        for line in ([ptx, "-o", made, "-arch=sm_80", "--warn-on-spills"], ["-lineinfo", "-v", "--gpu-name=sm_80", ptx, "-o", made],
                     ["-arch", "sm_80", "-O", "3", ptx, f"--output-file={made}"]):
            r = run(*line)
            check(r.returncode == 0 and not r.stderr and pathlib.Path(made).read_text() == text + "\0", f"{line}: {r.returncode}\n{r.stderr}")
            pathlib.Path(made).unlink()
        run(ptx, "-o", made)
        r = vcuda("run", *BACKEND, "--", sys.executable, "-c", LOAD, made)
        check(r.returncode == 0, f"loading it: {r.returncode}\n{r.stdout}{r.stderr}")
        r = run("--version")
        check(r.returncode == 0 and re.search(r"release \d+\.\d+, V\d+\.\d+\.\d+$", r.stdout, re.M), r.stdout)
        other = f"{top}/other"
        pathlib.Path(other).write_text("ELF")
        for line, word in (([], "no input"), ([other, "-o", made], "no PTX"), ([f"{top}/none", "-o", made], "cannot be read"),
                           ([ptx, "-o"], "needs a file"), ([ptx, ptx, "-o", made], "one file"), ([ptx, "-o", f"{top}/none/a"], "cannot be written")):
            pathlib.Path(made).unlink(missing_ok=True)
            r = run(*line)
            check(r.returncode == 1 and word in r.stderr and not pathlib.Path(made).exists(), f"{line}: {r.returncode}\n{r.stderr}")


globals()[sys.argv[3]]()
