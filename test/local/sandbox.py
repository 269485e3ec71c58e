# SPDX-License-Identifier: Apache-2.0
"""sandbox.py BUILD: code in a worker that is at work, or in a keeper, and what it can do with and without the sandbox. Needs root, for ptrace."""

import contextlib
import errno
import os
import socket
import subprocess
import sys
import tempfile

import exports
import harness
from compile import LONG, Program
from harness import build, check, children, daemon, start_steady, wait_until

# The result of each probe in the sandbox, and without it: "" success, else one of these errors. A kernel may lack the
# call, and a container may refuse it: then only the sandbox's result is checked.
SIGSYS = "SIGSYS"
PROBES = {
    "open-read": (-errno.EACCES, ""), "open-write": (-errno.EACCES, ""), "open-daemon-log": (-errno.EACCES, ""),
    "ftruncate-log": (-errno.EACCES, ""), "socket-tcp": (-errno.EAFNOSUPPORT, ""), "socket-netlink": (-errno.EAFNOSUPPORT, ""),
    "kill-daemon": (SIGSYS, ""), "f_setown-daemon": (-errno.EPERM, ""), "ptrace-daemon": (SIGSYS, ""),
    "fork": (SIGSYS, ""), "clone": (SIGSYS, ""), "clone3": (-errno.ENOSYS, ""),
    # The kernel requires a process with one thread.
    "unshare-user": (SIGSYS, errno.EINVAL), "io_uring": (SIGSYS, ""), "bpf": (SIGSYS, ""), "perf": (SIGSYS, ""),
    "memfd_secret": (SIGSYS, ""), "keyctl": (SIGSYS, ""), "prlimit-daemon": (-errno.EPERM, ""), "mount": (SIGSYS, ""), "init_module": (SIGSYS, errno.ENOEXEC),
    "process_vm_readv": (SIGSYS, ""), "mremap": (-errno.ENOMEM, ""), "remap_file_pages": (SIGSYS, ""),
    "execve": (SIGSYS, errno.ENOENT),
    # Neither Landlock nor the list of system calls limits these.
    "connect": (0, ""), "stat": (0, ""), "stat-daemon": (0, "")}
# In a view of the file system of their own (host/daemon/worker/view.h), workers find none of it.
HIDDEN = ("open-read", "open-write", "open-daemon-log", "ftruncate-log", "connect", "stat", "stat-daemon")
# NVIDIA's driver would start nvidia-modprobe, and goes on where it cannot.
if harness.BACKEND == "cuda":
    PROBES["clone"] = (-errno.EAGAIN, "")
MAY_LACK = {"unshare-user", "io_uring", "bpf", "perf", "memfd_secret", "keyctl", "mount", "init_module", "process_vm_readv", "ptrace-daemon"}


@contextlib.contextmanager
def at_work(*options):
    """A vcudad with two workers that compute: yields it, the environment of programs, the first program, and what the probe needs."""
    with tempfile.TemporaryDirectory() as folder, daemon(*options) as (d, env):
        with open(os.path.join(folder, "secret"), "w", encoding="utf-8") as f:
            f.write("secret")
        os.mkdir(os.path.join(folder, "mount"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(folder, "socket"))
        listener.listen()
        programs, workers = [], []
        for _ in range(2):
            programs.append(start_steady(env, 600))
            workers += set(children(d.pid)) - set(workers)
        try:
            yield d, env, programs[0], [str(workers[0]), str(d.pid), str(workers[1]), folder, d.log_path]
        finally:
            for program in programs:
                program.kill()
                program.wait()
            listener.close()


def probe(arguments, *options):
    r = subprocess.run([build("test/local/sandbox-probe"), *options, *arguments], capture_output=True, text=True, timeout=harness.LIMIT)
    check(r.returncode == 0, f"{r.stdout}{r.stderr}")
    return dict(line.split() for line in r.stdout.splitlines() if " " in line)


def said(d, text):
    with open(d.log_path, encoding="utf-8") as f:
        return text in f.read()


def processor_time(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return int(f.read().rsplit(")", 1)[1].split()[11])


def works(program, d, worker):
    """The program, which verifies what it computes, is served, and by the same worker."""
    begin = processor_time(worker)
    wait_until(lambda: program.poll() is not None or processor_time(worker) > begin + 2, "the worker does not work any more")
    check(program.poll() is None and int(worker) in children(d.pid), "the worker or its program has ended")


def may_have_view():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def refusals(view):
    return {name: str(-errno.ENOENT if view and name in HIDDEN else result) for name, (result, _) in PROBES.items()}


def refused():
    """With a view and without, because each layer is there for the case that another is missing."""
    for view in (False, True) if may_have_view() else (False,):
        os.environ["VCUDA_TEST_VIEW"] = "" if view else "none"
        with at_work("--sandbox", "best-effort") as (d, _, program, arguments):
            results = probe(arguments)
            check(results == refusals(view), f"refused, view {view}: {results}")
            works(program, d, arguments[0])
    del os.environ["VCUDA_TEST_VIEW"]


def compiler():
    """A process that compiles may no more than its worker."""
    if harness.BACKEND != "cpu":  # NVIDIA's compiler is in the worker
        return
    os.environ["VCUDA_CPU_CACHE"] = "0"
    with at_work("--sandbox", "best-effort") as (d, _, _, arguments), daemon("--sandbox", "best-effort") as (other, env):
        program = Program(other, env)
        program.begin(LONG)
        results = probe([str(program.compiling()), *arguments[1:]])
        expected = refusals(may_have_view()) | {"clone": str(-errno.EPERM), "kill-daemon": str(-errno.EPERM), "connect": SIGSYS,
                                                 "prlimit-daemon": SIGSYS}
        check(results == expected, f"refused: {results}")
        program.kill()


@contextlib.contextmanager
def keeping(*options):
    """The same for the keeper of a process that has been killed: yields also a function that checks that the keeper still keeps."""
    with at_work(*options) as (d, env, _, arguments):
        program = exports.start(env, "killed")
        check(program.stdout.readline() == "next?\n", "the exporter does not come so far")
        pid, = exports.keepers(d)

        def keeps():
            exports.go_on(program)
            exports.end(program, "killed")
            wait_until(lambda: not exports.keepers(d), "the keeper outlives what it keeps")

        try:
            yield d, [pid, *arguments[1:]], keeps
        finally:
            program.kill()
            program.wait()


# The results that the keeper's list shares with a worker's. The keeper opens no file, makes no socket, and looks at no
# other process.
KEEPER = {"f_setown-daemon": -errno.EPERM, "clone3": -errno.ENOSYS, "mremap": -errno.ENOMEM}


def identity(pid):
    """Users, groups, and capabilities in effect."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        lines = dict(line.split(":", 1) for line in f)
    return [lines[name].split() for name in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")]


def keeper():
    """The keeper has fewer rights than a worker, and goes on after each refusal."""
    for view in (False, True) if may_have_view() else (False,):
        os.environ["VCUDA_TEST_VIEW"] = "" if view else "none"
        with keeping("--sandbox", "best-effort") as (d, arguments, keeps):
            check(os.readlink(f"/proc/{arguments[0]}/fd/1").startswith("pipe:"), "the keeper has the log's file")
            same = os.readlink(f"/proc/{arguments[0]}/ns/mnt") == os.readlink(f"/proc/{d.pid}/ns/mnt")
            check(same != view, "the keeper has no view")
            capabilities = identity(arguments[0])[3:]
            check(capabilities == [["0" * 16]] * 3 + [["1"], ["2"]], f"{capabilities}")
            expected = {name: str(KEEPER.get(name, SIGSYS)) for name in PROBES}
            results = probe(arguments)
            check(results == expected, f"keeper, view {view}: {results}")
            keeps()
    del os.environ["VCUDA_TEST_VIEW"]
    with keeping("--sandbox", "off") as (d, arguments, keeps):
        check(probe([*arguments, "open-read"])["open-read"] == "0", "the keeper has a sandbox")
        keeps()
    with keeping("--sandbox", "log") as (d, arguments, keeps):
        check(probe([*arguments, "socket-tcp"])["socket-tcp"] == "0", "socket")
        wait_until(lambda: said(d, f"vcuda-keeper[{arguments[0]}]: sandbox: the system call socket (41) is not on the list"), "no line about the call")
        keeps()
    for mode, words in (("best-effort", ("the system call keyctl (250) is not on the list: the keeper ends",)), ("strict", ())):
        with keeping("--sandbox", mode) as (d, arguments, _):
            probe([*arguments, "keyctl"], "--deliver")
            for text in (*words, "vcuda-keeper was killed by signal 31"):
                wait_until(lambda t=text: said(d, t), f"no line '{text}'")


def off():
    with at_work("--sandbox", "off") as (d, _, program, arguments):
        results = probe(arguments)
        for name, (_, result) in PROBES.items():
            got = results[name]
            if got != ("0" if result == "" else str(-result)):
                check(name in MAY_LACK and got != SIGSYS, f"{name}: {got} without the sandbox")
                print(f"{name}: {errno.errorcode[-int(got)]} by this kernel")


def log():
    """An unknown call is logged, once, and goes on."""
    with at_work("--sandbox", "log") as (d, _, program, arguments):
        for _ in range(2):
            check(probe([*arguments, "fork"])["fork"] == "0", "fork")
        wait_until(lambda: said(d, "the system call fork (57) is not on the list"), "no line about the call")
        works(program, d, arguments[0])


def ends():
    """The worker ends, and its log says by which call."""
    # Between the two words of the line is the version of NVIDIA's driver, if there is one.
    for mode, words in (("best-effort", ("the system call keyctl (250) is not on the list", ": the worker ends")), ("strict", ())):
        with at_work("--sandbox", mode) as (d, _, program, arguments):
            probe([*arguments, "keyctl"], "--deliver")
            wait_until(lambda: int(arguments[0]) not in children(d.pid), "the worker lives on")
            for text in (*words, "was killed by SIGSYS"):
                wait_until(lambda t=text: said(d, t), f"no line '{text}'")


def code_of(worker):
    """Where executable memory begins, by the file's name, but for the program and the kernel's page of old, which have fixed places."""
    with open(f"/proc/{worker}/maps", encoding="utf-8") as f:
        fields = [line.split() for line in f]
    check("[heap]" not in [field[-1] for field in fields], "a heap behind the program")
    return {field[5]: field[0] for field in fields if "x" in field[1] and len(field) > 5 and not field[5].endswith(("/vcuda-worker", "[vsyscall]"))}


def layout():
    """No code of two workers is in the same place."""
    with at_work() as (_, _, _, arguments):
        one, other = code_of(arguments[0]), code_of(arguments[2])
        check("[vdso]" in one and any("/libvcuda-worker.so" in name for name in one), f"{one}")
        check(one.keys() == other.keys() and all(one[name] != other[name] for name in one), f"{one}\n{other}")


def sandbox():
    if os.geteuid() or harness.THREAD_SANITIZER:
        print("only root may stop a worker; and the thread sanitizer needs calls of its own")
        sys.exit(77)
    for part in (refused, compiler, keeper, off, log, ends, layout):
        part()


def main():
    harness.BUILD = os.path.abspath(sys.argv[1])
    sandbox()
    print("ok")


if __name__ == "__main__":
    main()
