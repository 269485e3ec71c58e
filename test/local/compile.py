# SPDX-License-Identifier: Apache-2.0
"""The compiler of the software GPU in processes of its own: crashes, limits, and its end. And NVIDIA's in the worker."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time

from harness import LIMIT, build, check, children, daemon, vcuda, wait_until

INVALID_PTX, OUT_OF_MEMORY = "218", "2"

# The sanitizer's allocator has its own way to end without memory.
ADDRESS_SANITIZER = "ASAN_OPTIONS" in os.environ  # test/meson.build

LONG = "targets 20000"  # a minute
LARGE = "targets 4000"  # 200 MiB


class Program:
    """test/local/compile.c: one kernel after another."""

    def __init__(self, d, env, stderr=None):
        self.p = subprocess.Popen([build("test/local/compile")], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.daemon = d

    def begin(self, what):
        self.p.stdin.write(what + "\n")
        self.p.stdin.flush()

    def result(self):
        return self.p.stdout.readline().strip()

    def compile(self, what):
        self.begin(what)
        return self.result()

    def end(self):
        self.p.stdin.close()
        check(self.p.wait(LIMIT) == 0, f"the program ended with {self.p.returncode}")

    def kill(self):
        self.p.kill()
        self.p.wait()

    def spawners(self):
        return [spawner for worker in children(self.daemon.pid) for spawner in children(worker)]

    def processes(self):
        """The processes that the spawner has started and that have their name: one that is stopped earlier has a copy of all descriptors."""
        return [process for spawner in self.spawners() for process in children(spawner) if name(process) == "vcuda-compile"]

    def compiling(self):
        """The compiling process: it uses a processor for a while."""
        before, found = {}, []

        def at_work():
            now = {p: ticks(p) for p in self.processes()}
            found[:] = [p for p in now if now[p] > before.setdefault(p, now[p]) + 10]
            return found
        wait_until(at_work, "no process compiles")
        return found[0]


def name(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().strip()
    return None


def ticks(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    return 0


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def log_of(d):
    with open(d.log_path, encoding="utf-8") as f:
        return f.read()


def starts(*options):
    """A daemon whose software GPU keeps no code."""
    os.environ["VCUDA_CPU_CACHE"] = "0"
    return daemon(*options)


def compile_crashes():
    """A compiler that crashes or is killed ends one launch, and the worker goes on, with as many descriptors as before."""
    with starts() as (d, env):
        p = Program(d, env)
        check(p.compile("steps 1") == "0", "the first kernel")
        worker, = children(d.pid)
        before = len(os.listdir(f"/proc/{worker}/fd"))
        for number, result, text in ((signal.SIGSEGV, INVALID_PTX, "the compiler crashed (SIGSEGV)"),
                                     (signal.SIGABRT, INVALID_PTX, "the compiler crashed (SIGABRT)"),
                                     (signal.SIGKILL, OUT_OF_MEMORY, "the compiler was killed")):
            p.begin(LONG)
            os.kill(p.compiling(), number)
            got = p.result()
            check(got == result, f"a launch whose compiler got {number.name}: {got}")
            wait_until(lambda: f"cannot compile kernel large: {text}" in log_of(d), f"no line with '{text}'")
            check(p.compile("steps 2") == "0", "the next kernel")
        check(len(os.listdir(f"/proc/{worker}/fd")) <= before, "the worker has more descriptors")
        p.end()


def compile_limits():
    """Time and memory of a compilation end at their quotas, which can be changed and count what they refuse."""
    with tempfile.TemporaryDirectory() as directory:
        control = os.path.join(directory, "control")
        with starts("--max-compile-memory", "100M", "--control", control) as (d, env):
            p = Program(d, env)
            check(p.compile("steps 1") == "0", "a small kernel")
            if not ADDRESS_SANITIZER:
                got = p.compile(LARGE)
                check(got == OUT_OF_MEMORY, f"much memory: {got}")
                wait_until(lambda: "large: the compiler needs more than 100 MiB (raise vcudad's --max-compile-memory)" in log_of(d),
                           "no line names the quota of memory")
            r = vcuda("vm", "set", "--control", control, str(d.pid), "max-compile-time=1", "max-compile-memory=4G")
            check(r.returncode == 0, r.stderr)
            got = p.compile(LONG)
            check(got == INVALID_PTX, f"much time: {got}")
            # On a busy machine ten seconds pass before the process has had its second.
            wait_until(lambda: re.search(r"large: it takes more than 1(0 s \(10 times| s of a processor \(raise) vcudad's --max-compile-time", log_of(d)),
                       "no line names the quota of time")
            check(p.compile("steps 2") == "0", "a small kernel")
            p.end()
            quotas = json.loads(vcuda("vm", "list", "--json", "--control", control).stdout)[0]["quotas"]
            check(quotas["max-compile-time"]["refused"] == 1, quotas)
            check(quotas["max-compile-memory"]["refused"] == (not ADDRESS_SANITIZER), quotas)


def stop(*processes):
    """Returns those of the processes that have not ended. A stopped process ends only if it is killed."""
    stopped = []
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
            stopped.append(process)
    return [process for process in stopped if not is_gone(process)]


def compile_unloads():
    """A compilation in the background ends with its module."""
    with starts() as (d, env):
        p = Program(d, env)
        check(p.compile("mixed 3000") == "0", "a large kernel, whose quick code runs")
        before = p.processes()
        wait_until(lambda: p.compile("launches 2000") == "0" and set(p.processes()) - set(before), "hot code is not optimised")
        compiling, = set(p.processes()) - set(before)
        stop(compiling)
        check(p.compile("unload") == "0", "unload")
        wait_until(lambda: is_gone(compiling), "a compilation outlives its module")
        check(p.compile("steps 2") == "0", "the next kernel")
        p.end()


def compile_sleeps():
    """A process that takes an order and sleeps, as one that is taken over may, ends after ten times its seconds."""
    with starts("--max-compile-time", "1") as (d, env):
        p = Program(d, env)
        # A process without an order ends after 10 s.
        wait_until(lambda: p.compile("steps 1") == "0" and p.processes(), "no process is there")
        sleeping = p.processes()
        stop(*sleeping)
        got = p.compile("steps 2")
        check(got == INVALID_PTX, f"a launch whose compiler sleeps: {got}")
        wait_until(lambda: "large: it takes more than 10 s (10 times vcudad's --max-compile-time" in log_of(d), "no line names the quota")
        wait_until(lambda: all(map(is_gone, sleeping)), "a process that sleeps is there still")
        check(p.compile("steps 3") == "0", "the next kernel")
        p.end()


class Terminal:
    """A terminal of 100 columns, and what was written to it."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.text = ""

    def read(self):
        """All that is there, and was before."""
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 4096).decode()
        return self.text

    def close(self):
        os.close(self.slave)
        os.close(self.master)


ERASE = "\r\x1b[K"
LINE = re.compile(r"vcuda: compiling kernels for the software GPU: (\d+) done, now large \((\d+) s\)")


def compile_slowly(d, env, terminal, wait):
    """
    One compilation that lasts until wait() returns: its process is stopped meanwhile. Returns what the terminal got until the
    kernel's end, or without one what standard error got.
    """
    p = Program(d, env, stderr=terminal.slave if terminal else subprocess.PIPE)
    stopped = []

    def stops():
        # A process without an order may be about to end.
        check(p.compile("steps 1") == "0", "a kernel")
        stopped[:] = stop(*p.processes())
        return stopped
    wait_until(stops, "no process is there")
    p.begin("steps 2")
    wait()
    for process in stopped:
        # One that works for no kernel any more may have been killed.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    check(p.result() == "0", "the kernel")
    text = terminal.read() if terminal else ""
    check(p.compile("steps 3") == "0", "the next kernel")
    p.p.stdin.close()
    text += "" if terminal else p.p.stderr.read()
    check(p.p.wait(LIMIT) == 0, f"the program ended with {p.p.returncode}")
    return text


def compile_progress():
    """A terminal has a line while the program waits for the compiler, and nothing of it afterwards; all else has none."""
    with starts() as (d, env):
        env = dict(env, TERM="xterm")
        terminal = Terminal()

        def wait_for_line():
            wait_until(lambda: any(int(m.group(2)) >= 1 for m in LINE.finditer(terminal.read())), f"no line: {terminal.text!r}")
        first = compile_slowly(d, env, terminal, wait_for_line)
        text = terminal.read()
        check(text.endswith(ERASE), f"the line stays: {text!r}")
        check(not LINE.sub("", text).replace(ERASE, ""), f"other text: {text!r}")
        check(len({m.group(1) for m in LINE.finditer(first)}) == 1, f"kernels were counted while one was compiled: {text!r}")
        terminal.close()
        for variables in {"VCUDA_PROGRESS": "0"}, {"VCUDA_LOG": "0"}, {"TERM": "dumb"}:
            terminal = Terminal()
            compile_slowly(d, dict(env, **variables), terminal, lambda: time.sleep(2))
            check(not terminal.read(), f"{variables}: {terminal.text!r}")
            terminal.close()
        errors = compile_slowly(d, env, None, lambda: time.sleep(2))
        check(not errors, f"what is no terminal has {errors!r}")


def compile_ends():
    """A compilation ends with its process, and with its worker."""
    with starts() as (d, env):
        for ends in "program", "worker":
            p = Program(d, env)
            p.begin(LONG)
            processes = [p.compiling(), *p.spawners()]
            worker, = children(d.pid)
            stop(*processes)
            if ends == "worker":
                os.kill(worker, signal.SIGKILL)
                check(p.result() != "0", "a launch without a worker")
            p.kill()
            wait_until(lambda: all(map(is_gone, [worker, *processes])), f"a compilation outlives its {ends}")


def compile_cached():
    """Kernels of the cache start no process. On a busy machine quick code may run for so long that a process optimises it, with less weight."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for mode in "auto", "optimised":
        with tempfile.TemporaryDirectory() as directory:
            os.environ.update(VCUDA_CACHE=directory, VCUDA_CPU_COMPILE=mode)
            for count in 1, 0:
                with daemon() as (d, env):
                    p = Program(d, env)
                    check(p.compile("steps 3") == "0", "a small kernel")
                    found = [n for n in p.processes() if mode == "optimised" or os.getpriority(os.PRIO_PROCESS, n) == own]
                    check(len(found) == count, f"{mode}: {len(found)} processes compile in place of {count}")
                    p.end()


def compile_loads():
    """NVIDIA's compiler cannot be stopped: a module that takes too long ends its worker, and no other."""
    with daemon("--max-compile-time", "1") as (d, env):
        p, neighbour = Program(d, env), Program(d, env)
        for program in p, neighbour:
            check(program.compile("steps 1") == "0", "a small kernel")
        check(p.compile("mixed 60000") == "", "a module that takes long")
        wait_until(lambda: "loading a module takes more than 1 s of a processor (raise vcudad's --max-compile-time): the worker ends" in log_of(d),
                   "no line names the quota")
        check(neighbour.compile("steps 2") == "0", "the neighbour's next kernel")
        neighbour.end()
        p.kill()
