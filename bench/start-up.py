#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a short program from start to exit: natively, with a daemon of its own, with one that runs, and with warm workers.

    bench/start-up.py --backend cuda --native build/examples/vectorAdd-static build
    bench/start-up.py --backend cpu build

All ways take turns, so that what else the machine does meets all. Between two runs with warm workers the next is waited for; "no pause" are
runs one right after the other. --steps says when each step was reached (VCUDA_TIMES=1), in runs of their own, since the lines cost time.
"""
import argparse
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

LINE = re.compile(r"^vcuda-time (\S+) (\d+) (.*)$", re.M)


class Daemon:
    """A vcudad, and what it and its workers wrote."""

    def __init__(self, options, *more):
        self.directory = tempfile.TemporaryDirectory(prefix="vcuda-")
        self.socket = os.path.join(self.directory.name, "socket")
        self.log_path = os.path.join(self.directory.name, "log")
        self.seen = 0
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([f"{options.build}/host/daemon/vcudad", "--socket", self.socket, "--backend", options.backend,
                                             *more], stderr=log, env=dict(os.environ, VCUDA_TIMES="1"))
        while not os.path.exists(self.socket):
            if self.process.poll() is not None:
                sys.exit(self.log())
            time.sleep(0.01)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def workers(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="utf-8") as children:
            return {int(pid) for pid in children.read().split()}

    def wait_ready(self, count):
        """No worker of an earlier run is left, and `count` have a context."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            said = {int(pid) for _, pid, what in LINE.findall(self.log()) if what == "worker: has a context"}
            workers = self.workers()
            if len(workers) == count and workers <= said:
                time.sleep(0.05)
                return
            time.sleep(0.005)
        sys.exit(f"there are no {count} warm workers:\n{self.log()}")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.directory.cleanup()


def run(command, env):
    """Seconds from start to exit, when it started, and what it wrote to standard error."""
    start = time.clock_gettime(time.CLOCK_MONOTONIC)
    r = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.clock_gettime(time.CLOCK_MONOTONIC) - start
    if r.returncode:
        sys.exit(f"{command}: {r.returncode}\n{r.stderr}")
    return seconds, start, r.stderr


def steps_of(start, text):
    """Milliseconds from the start to each step's first time, of what served the program only."""
    lines = [(float(when), pid, what) for when, pid, what in LINE.findall(text)]
    served = {pid for when, pid, what in lines if what == "worker: has its guest process" and when >= start}
    first = {}
    for when, pid, what in sorted(lines):
        if when >= start and (pid in served or not what.startswith("worker")):
            first.setdefault(what, (when - start) * 1e3)
    return first


def say(name, seconds, native):
    ms = [s * 1e3 for s in seconds]
    middle = statistics.median(ms)
    ratio = f"{middle / native:8.2f} {middle - native:+10.1f}" if native else ""
    print(f"{name:34} {middle:8.1f}   {min(ms):7.1f} to {max(ms):7.1f}   {ratio}")
    return middle


def say_steps(name, runs):
    print(f"\n{name}: ms from the start, medians of {len(runs)}")
    medians = {what: statistics.median(r[what] for r in runs if what in r) for what in {what for r in runs for what in r}}
    for what, ms in sorted(medians.items(), key=lambda item: item[1]):
        print(f"  {ms:8.2f}  {what}")


def measure(options, ways, rounds):
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(way()[0])
    native = None
    print(f"{'':34} {'ms':>8}   {'lowest to highest':>18}   {'of native':>8} {'ms more':>10}" if options.native else "")
    for name, seconds in times.items():
        middle = say(name, seconds, native)
        native = middle if name == "native" else native


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--native", help="program for the host's own driver (default: not measured)")
    parser.add_argument("--program", help="program for virtio-cuda (default: the build's examples/vectorAdd)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--steps", action="store_true")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    program = options.program or f"{options.build}/examples/vectorAdd"
    cli = [f"{options.build}/cli/vcuda", "run"]
    plain = {k: v for k, v in os.environ.items() if k not in ("VCUDA_SOCKET", "VCUDA_TRANSPORT", "VCUDA_TIMES", "XDG_RUNTIME_DIR")}

    with contextlib.ExitStack() as stack:
        cold, warm = Daemon(options), Daemon(options, "--warm", str(options.warm))
        stack.callback(cold.stop)
        stack.callback(warm.stop)

        def client(daemon, **more):
            path = f"{options.build}/guest/lib:" + plain.get("LD_LIBRARY_PATH", "")
            return dict(plain, VCUDA_SOCKET=daemon.socket, VCUDA_TRANSPORT="local", LD_LIBRARY_PATH=path.rstrip(":"), **more)

        def with_warm(command, **more):
            warm.wait_ready(options.warm)
            return run(command, client(warm, **more))

        def with_cold(command, **more):
            cold.wait_ready(0)
            return run(command, client(cold, **more))

        ways = {"native": lambda: run([options.native], plain)} if options.native else {}
        ways |= {
            "vcuda run, its own daemon": lambda: run([*cli, "--backend", options.backend, "--", program], plain),
            "daemon runs": lambda: with_cold([program]),
            "daemon runs, by vcuda run": lambda: with_cold([*cli, "--", program]),
            f"--warm {options.warm}": lambda: with_warm([program]),
            f"--warm {options.warm}, by vcuda run": lambda: with_warm([*cli, "--", program]),
        }
        for way in ways.values():
            way()
        measure(options, ways, options.rounds)
        warm.wait_ready(options.warm)
        say(f"--warm {options.warm}, no pause", [run([program], client(warm))[0] for _ in range(options.rounds)], None)
        say("daemon runs, no pause", [run([program], client(cold))[0] for _ in range(options.rounds)], None)
        if not options.steps:
            return
        times = {"VCUDA_TIMES": "1"}
        for name, daemon, way in (("vcuda run, its own daemon", None, lambda: run([*cli, "--backend", options.backend, "--", program], dict(plain, **times))),
                                  ("daemon runs", cold, lambda: with_cold([program], **times)),
                                  (f"--warm {options.warm}", warm, lambda: with_warm([program], **times))):
            runs = []
            for _ in range(options.rounds):
                seconds, start, text = way()
                if daemon:
                    daemon.wait_ready(options.warm if daemon is warm else 0)
                runs.append(steps_of(start, text + (daemon.log() if daemon else "")))
                runs[-1]["= the program's exit"] = seconds * 1e3
            say_steps(name, runs)


if __name__ == "__main__":
    main()
