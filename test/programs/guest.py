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
# The exit statuses of timeout(1) after a timeout; the latter if it had to use SIGKILL.
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
        self.code, self.output, self.host, self.seconds = None, "", "", 0.0


def parse(text, mark, jobs):
    """Takes what the VM printed so far; returns how many jobs have begun and how many are done."""
    began = done = 0
    output = []
    for line in text[:text.rfind("\n") + 1].splitlines():
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


def end(vm):
    """Why the VM is gone."""
    why = "the VM hangs" if vm.poll() is None else f"the VM ended with status {vm.returncode}"
    vm.terminate()
    try:
        vm.wait(20)
    except subprocess.TimeoutExpired:
        vm.kill()
        vm.wait()
    return why


def one_boot(start, jobs, timeout):
    """Yields as many as one VM gets through, each when it is over; at least one, since that at which a VM breaks is not run again."""
    mark = secrets.token_hex(8)
    script = "".join(STEP.format(folder=shlex.quote(str(job.folder)), mark=mark, number=i, timeout=timeout, command=shlex.join(job.command))
                     for i, job in enumerate(jobs))
    done = said = 0
    deadline = time.monotonic() + BOOT_SECONDS + timeout
    with tempfile.TemporaryDirectory() as directory:
        out, err = pathlib.Path(directory) / "out", pathlib.Path(directory) / "err"
        with open(out, "w", encoding="utf-8") as output, open(err, "w", encoding="utf-8") as errors:
            vm = subprocess.Popen([*start, "/bin/sh", "-c", script], stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        ended = False
        while not ended and time.monotonic() < deadline:
            time.sleep(0.2)
            ended = vm.poll() is not None
            before, (began, done) = done, parse(out.read_text(errors="replace"), mark, jobs)
            host = err.read_text(errors="replace")
            if done > before:
                # Workers complain on the host. `vcuda run` would have shown it beside the program's output.
                jobs[done - 1].host, said = host[said:], len(host)
                deadline = time.monotonic() + timeout + 60
                yield from jobs[before:done]
        why = end(vm)
    if done < len(jobs):
        jobs[done].code, jobs[done].output = 1, host[said:] + f"\n{why} {'in it' if began > done else 'before it'}"
        yield jobs[done]


def run_all(vcuda, backend, memory, jobs, timeout):
    """Yields each job when it is over: its exit status (None: not done in time), output, what the host's side said, and seconds."""
    start = [os.path.abspath(vcuda), "vm", "run", "--backend", backend, "--memory", memory, "--verbose", "--"]
    while jobs:
        for job in one_boot(start, jobs, timeout):
            yield job
            jobs = jobs[1:]
