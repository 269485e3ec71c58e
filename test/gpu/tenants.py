#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With an NVIDIA GPU and PyTorch: VMs that want more memory than there is, and a training that is paused at random moments.

usage: tenants.py BUILD_DIRECTORY overcommit SECONDS TENANTS MIB CAPACITY_MIB     the longest step of each VM against the wait that `vcuda top` shows
       tenants.py BUILD_DIRECTORY pauses TIMES                                      losses beside those of a training that is not paused

Prints figures, and ends with status 1 where a result is wrong.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "local"))
os.environ["VCUDA_TEST_BACKEND"] = "cuda"
import harness  # noqa: E402
from harness import LIMIT, check, random_seed  # noqa: E402
from overcommit import Tenant  # noqa: E402
from pause import Daemon  # noqa: E402

TRAINER = [sys.executable, "-W", "ignore", os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer.py")]


class Training:
    """trainer.py, whose lines go to a file."""

    def __init__(self, env, *arguments):
        self.log = tempfile.TemporaryFile("w+")  # read by pread(), since the program has the same offset
        self.process = subprocess.Popen([*TRAINER, *map(str, arguments)], env=env, stdout=self.log, text=True)
        self.pid = self.process.pid

    def lines(self):
        return os.pread(self.log.fileno(), 1 << 24, 0).decode().splitlines()

    def is_ready(self):
        return "ready" in self.lines() or self.process.poll() is not None

    def steps(self):
        """For each step: the loss as text, the end and the duration in s."""
        fields = (line.split() for line in self.lines() if line[:1].isdigit())
        return [(f[1], float(f[2]), float(f[3])) for f in fields if len(f) == 4]

    def finish(self, terminate=False):
        if terminate:
            self.process.terminate()
        self.process.wait(LIMIT)
        check(self.process.returncode == 0, f"a training ended with {self.process.returncode}: {self.lines()[-3:]}")
        return self


def overcommit(seconds, count, mib, capacity):
    """All VMs together want more than there is, and none rests."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        vms = [Tenant(stack, directory, f"{capacity}M") for _ in range(int(count))]
        trainings = [Training(vm.env, "--ballast", mib, "--grow", 256) for vm in vms]
        begin, waits, inside, looks = time.monotonic(), [0] * len(vms), 0, 0
        while time.monotonic() - begin < float(seconds):
            states = [vm.state() for vm in vms]
            waits = [max(w, s["memory_wait_ms"] / 1e3) for w, s in zip(waits, states)]
            looks += 1
            inside += any(s["memory_state"] == "in" for s in states)
            time.sleep(0.05)
        outs = [vm.outs() for vm in vms]
        for training in trainings:
            training.process.terminate()
        for training, out, wait in zip(trainings, outs, waits):
            steps = training.finish().steps()
            longest = max(duration for _, _, duration in steps[1:])
            print(f"{len(steps)} steps; went out {out} times; the longest step {longest:.1f} s, `vcuda top` showed {wait:.1f} s at most")
            # A VM keeps its memory nine times as long as its moves take, so that its own moves are a tenth of a lease at most.
            check(longest <= 1.1 * wait + 0.5, "a step waited longer than `vcuda top` shows")
        print(f"at least one VM was in at {inside / looks:.3f} of {looks} looks")
        longest_run = max(trainings, key=lambda t: len(t.steps())).steps()
        for training in trainings:
            for (a, _, _), (b, _, _) in zip(training.steps(), longest_run):
                check(a == b, f"losses differ: {a} {b}")


def rate(steps, begin, end):
    inside = [t for _, t, _ in steps if begin <= t <= end]
    return len(inside) / (end - begin)


def pauses(times):
    chance = random.Random(random_seed())
    native = Training(dict(os.environ), "--steps", 400).finish()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        daemons = []
        for i in range(2):
            control = os.path.join(directory, f"control{i}")
            d, env = stack.enter_context(harness.daemon("--control", control, "--share", "1", "--arbiter", os.path.join(directory, "arbiter")))
            daemons.append(Daemon(d, env, control))
        calm = Training(daemons[0].env, "--steps", 400).finish()
        neighbour = Training(daemons[1].env)
        harness.wait_until(neighbour.is_ready, "the neighbour does not come so far")
        time.sleep(5)
        now = time.monotonic()
        alone = rate(neighbour.steps(), now - 4, now)
        training = Training(daemons[0].env, "--steps", 400)
        paused, releases, resumes, done = [], [], [], 0
        while done < int(times) and training.process.poll() is None:
            time.sleep(chance.uniform(0.0, 0.5))
            if not any(p["pid"] == training.pid for p in daemons[0].processes()):
                continue
            begin = time.monotonic()
            daemons[0].say("pause", "--release", training.pid)
            out = time.monotonic()
            before = len(training.steps())
            time.sleep(0.3)
            check(len(training.steps()) - before <= 1, "a training works although it is paused")
            back = time.monotonic()
            daemons[0].say("resume", training.pid)
            resumes.append(time.monotonic() - back)
            releases.append(out - begin)
            paused.append((out, back))
            done += 1
        training.finish()
        together = rate(neighbour.steps(), paused[0][0], paused[-1][1])
        meanwhile = sum(rate(neighbour.steps(), b, e) * (e - b) for b, e in paused) / sum(e - b for b, e in paused)
        neighbour.finish(terminate=True)
        losses = [[loss for loss, _, _ in t.steps()] for t in (native, calm, training)]
        moments = [sum(end < b for _, end, _ in training.steps()) for b, _ in paused]
        print(f"{done} pauses with release after steps {moments}; release {min(releases):.2f} to {max(releases):.2f} s, "
              f"resume {min(resumes):.2f} to {max(resumes):.2f} s")
        print(f"the neighbour's steps, as a part of those alone: {meanwhile / alone:.3f} in pauses, {together / alone:.3f} from the first pause to the last")
        check(len(losses[2]) == 400 and losses[0] == losses[1] == losses[2], f"losses differ: {[loss[-3:] for loss in losses]}")
        shared = [loss for loss, _, _ in neighbour.steps()[:400]]
        check(shared == losses[0][:len(shared)], "the neighbour's losses differ")
        print("400 losses of the native training, the one that was not paused, and the one that was, are equal; the last: " + losses[0][-1])


def main():
    harness.BUILD = os.path.abspath(sys.argv[1])
    {"overcommit": overcommit, "pauses": pauses}[sys.argv[2]](*sys.argv[3:])
    print("ok")


if __name__ == "__main__":
    main()
