# SPDX-License-Identifier: Apache-2.0
"""Runs programs one after another in a VM of `vcuda vm run`: one boot for many, and another one for the rest if it is lost."""

import os
import pathlib
import secrets
import shlex
import subprocess
import tempfile
import time

BOOT_SECONDS = 180
# What timeout(1) ends with when the time was up; the latter if it had to use SIGKILL.
TIMED_OUT = (124, 137)
# A program's output goes to a file: several samples end by closing descriptors that they share with their children.
STEP = """cd {folder} || exit 126
echo "{mark} start {number}"
begin=$(date +%s%N)
timeout -k 5 {timeout} {command} >/dev/shm/{mark} 2>&1
status=$?
end=$(date +%s%N)
cat /dev/shm/{mark}
printf '\\n%s end %d %d %d\\n' {mark} {number} $status $(((end - begin) / 1000000))
"""


class Job:
    def __init__(self, sample, folder, command):
        self.sample, self.folder, self.command = sample, folder, command
        self.code, self.output, self.seconds = None, "", 0.0


def parse(text, mark, jobs):
    """Takes what the VM printed so far; returns how many jobs have begun and how many are done."""
    began = done = 0
    output = []
    for line in text.splitlines():
        words = line.split()
        if words[:2] == [mark, "start"]:
            began, output = int(words[2]) + 1, []
        elif words[:2] == [mark, "end"] and len(words) == 5:
            done = int(words[2]) + 1
            job, code = jobs[done - 1], int(words[3])
            job.code, job.seconds, job.output = None if code in TIMED_OUT else code, int(words[4]) / 1000, "\n".join(output)
        else:
            output.append(line)
    return began, done


def one_boot(start, jobs, timeout):
    """Runs as many as one VM gets through: how many jobs are over, at least one, since that at which a VM breaks is not run again."""
    mark = secrets.token_hex(8)
    script = "".join(STEP.format(folder=shlex.quote(str(job.folder)), mark=mark, number=i, timeout=timeout, command=shlex.join(job.command))
                     for i, job in enumerate(jobs))
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory) / "log"
        with open(log, "w", encoding="utf-8") as output:
            vm = subprocess.Popen([*start, "/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        seen, deadline = 0, time.monotonic() + BOOT_SECONDS + timeout
        while vm.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
            _, done = parse(log.read_text(errors="replace"), mark, jobs)
            if done > seen:
                seen, deadline = done, time.monotonic() + timeout + 60
        lost = f"the VM ended with status {vm.returncode}" if vm.poll() is not None else "the VM hangs"
        vm.terminate()
        try:
            vm.wait(20)
        except subprocess.TimeoutExpired:
            vm.kill()
            vm.wait()
        text = log.read_text(errors="replace")
        began, done = parse(text, mark, jobs)
    if done == len(jobs):
        return done
    job = jobs[done]
    job.code, job.output = 1, text[-4000:] + f"\n{lost} {'in it' if began > done else 'before it'}"
    return done + 1


def run_all(vcuda, backend, memory, jobs, timeout):
    """Yields each job when it is over: its exit status (None: not done in time), output and seconds are in it then."""
    start = [os.path.abspath(vcuda), "vm", "run", "--backend", backend, "--memory", memory, "--"]
    while jobs:
        over = one_boot(start, jobs, timeout)
        yield from jobs[:over]
        jobs = jobs[over:]
