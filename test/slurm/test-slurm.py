#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of Slurm with parts of a device: test-slurm.py BUILD_ROOT HOW_TO SCENARIO

The how-to says how Slurm is set up: two devices of four slices a node. A slice has 64 MiB of the software GPU here.
"""

import os
import pathlib
import pwd
import re
import shutil
import signal
import sys
import time

import cluster
from cluster import check, read, wait_for

BUILD, HOW_TO, SCENARIO = sys.argv[1:4]
SLICES, SLICE_MIB = 4, 64
SIZE = f"of {SLICES} slice-memory {SLICE_MIB << 20} reserved 1"
NO_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
RUN = pathlib.Path("/run/vcuda/slurm")
PROGRAM = "/run/build/test/slurm/job"


def users():
    """Two ordinary users of this machine that no service here has."""
    found = []
    for name in ("games", "news", "mail", "backup", "man", "daemon"):
        try:
            found.append(pwd.getpwnam(name))
        except KeyError:
            pass
    if len(found) < 2:
        cluster.skip("there are no two users for jobs")
    return found[:2]


def srun(c, *words, user, gres, **options):
    return c.run("srun", "-w", "n1", *([f"--gres=vcuda:{gres}"] if gres else []), *words, user=user, **options)


class Holder:
    """A job that computes until it may end. `node`: None for a job that Slurm places."""

    def __init__(self, c, user, slices, node="n1", name="", program=PROGRAM):
        self.c, self.node = c, node
        self.file = c.out / f"go-{time.monotonic_ns()}"
        self.out = c.out / f"job-{time.monotonic_ns()}.out"
        where = ["-w", node] if node else []
        text = c.run("sbatch", "--parsable", *where, "--no-requeue", f"--gres=vcuda:{slices}", "-o", self.out, "-J", name or "hold",
                     "--wrap", f"exec {program} compute {self.file}", user=user)
        self.number = int(text)

    def text(self):
        return read(self.out)

    def computes(self):
        wait_for(lambda: "computes" in self.text() or self.c.job(self.number, "JobState") in ("FAILED", "CANCELLED"), f"job {self.number} computes")
        check("computes" in self.text(), f"job {self.number}: {self.text()}")
        return self

    def ended(self, state):
        wait_for(lambda: self.c.job(self.number, "JobState") == state, lambda: f"job {self.number} is {state}: {self.c.job(self.number, 'JobState')}")
        if self.node:
            wait_for(lambda: not (RUN / self.node / f"{self.number}.job").exists(), f"job {self.number} gives its slices back")

    def finish(self):
        self.file.touch()
        self.ended("COMPLETED")
        check(self.text().endswith("right\n"), self.text())


def is_process(number):
    """Whether the process lives and is no zombie."""
    return read(f"/proc/{number}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])


def our_processes():
    """vcudad, and all that it starts."""
    names = {path.parent.name: read(path).strip() for path in pathlib.Path("/proc").glob("[0-9]*/comm")}
    return {number: name for number, name in names.items() if name.startswith("vcuda") and is_process(number)}


def expect_idle(c):
    """No job, no process of ours and no socket is left, and no node was taken from Slurm."""
    wait_for(lambda: c.states() == ["idle", "idle"], lambda: f"the nodes are idle: {c.run('sinfo', '-R')}")
    for node in cluster.NODES:
        left = [path.name for path in (RUN / node).glob("[0-9]*")]
        check(not left, f"left on {node}: {left}")
    wait_for(lambda: not our_processes(), lambda: f"our processes end: {our_processes()}")


def sizes(c, user, other):
    """A quarter, a half and a whole device have their part of the memory, and no more."""
    service = pathlib.Path("/var/cache/vcuda")
    service.mkdir(mode=0o755)
    for slices in (1, 2, 4):
        job = Holder(c, user, slices).computes()
        top = c.run("/run/build/cli/vcuda", "top", "--once", "--control", RUN / "n1/control" / str(c.devices("n1")[1][job.number]))
        check({"vcudad", "vcuda-worker"} <= set(our_processes().values()), our_processes())
        check(f"job-{job.number} " in top and f"share {slices} of the device's time" in top, top)
        job.finish()
        out = srun(c, PROGRAM, "memory", user=user, gres=slices)
        most = slices * SLICE_MIB
        found = re.search(r"^has (\d+) takes (\d+) then (\d+)$", out, re.MULTILINE)
        check(found, out)
        has, takes, then = map(int, found.groups())
        check(has == most and most - 8 <= takes <= most and then == NO_MEMORY, f"{slices} slices: {out}")
    # A job without the resource has no device, and one over two nodes has one on each.
    out = srun(c, PROGRAM, "memory", user=user, gres=0, status=2)
    check("libcuda.so.1: cannot open" in out, out)
    out = c.run("srun", "-N2", "--gres=vcuda:1", "-l", "sh", "-c", f"echo $VCUDA_SOCKET; {PROGRAM} memory", user=user)
    for node in cluster.NODES:
        check(re.search(rf"/run/vcuda/slurm/{node}/\d+/socket", out), out)
    check(len(re.findall(r"has 64 takes", out)) == 2, out)
    # The cache is the jobs' own. That of vcudad.service, here root's, is left alone.
    check((service.stat().st_uid, service.stat().st_mode & 0o777) == (0, 0o755) and not list(service.iterdir()), service.stat())
    check(pathlib.Path("/var/cache/vcuda-slurm").owner() == "nobody", "the cache's user")
    expect_idle(c)


def packed(c, user, other):
    """Jobs of an array, and of two users, share a device while one has room."""
    first, second = Holder(c, other, 3).computes(), Holder(c, user, 2).computes()
    check(c.devices("n1")[0] == {0: 3, 1: 2}, c.devices("n1"))
    first.finish()
    third = Holder(c, other, 2).computes()
    check(c.devices("n1")[0] == {1: 4}, c.devices("n1"))
    check("has 256 takes" in srun(c, PROGRAM, "memory", user=user, gres=4), "a whole device fits")
    second.finish()
    third.finish()
    first = Holder(c, other, 3).computes()
    go = c.out / "go-array"
    number = int(c.run("sbatch", "--parsable", "-w", "n1", "--array=0-4", "--gres=vcuda:1", "-o", c.out / "array-%a.out",
                       "--wrap", f"exec {PROGRAM} compute {go}", user=user))
    wait_for(lambda: len(c.devices("n1")[1]) == 6, "all jobs of the array run")
    check(c.devices("n1")[0] == {0: 4, 1: 4}, c.devices("n1"))
    go.touch()
    wait_for(lambda: len(c.devices("n1")[1]) == 1, "the array ends")
    for i in range(5):
        wait_for(lambda i=i: "right" in read(c.out / f"array-{i}.out"), f"job {i} of {number}")
    first.finish()
    expect_idle(c)


def fragmented(c, user, other):
    """A job that fits in sum, but on no device, ends with a line. The node goes on."""
    holders = [Holder(c, user, 3).computes(), Holder(c, other, 3).computes()]
    check(c.devices("n1")[0] == {0: 3, 1: 3}, c.devices("n1"))
    line = "vcuda: no device of node n1 has 2 free slices; free are 1, 1"
    out = srun(c, "-n2", "echo", "ran", user=user, gres=2, status=1)
    check(out.count(line) == 1 and "ran" not in out, out)
    check(line.replace("vcuda:", "is refused:") in (c.top / "n1.log").read_text(encoding="utf-8"), "the log of slurmd has the line")
    out = c.out / "refused.out"
    c.run("sbatch", "--wait", "-w", "n1", "--gres=vcuda:2", "-o", out, "--wrap", "echo ran", user=other, status=1)
    check(line in out.read_text(encoding="utf-8") and "ran" not in out.read_text(encoding="utf-8"), out.read_text(encoding="utf-8"))
    check("has 64 takes" in srun(c, PROGRAM, "memory", user=user, gres=1), "one slice fits")
    holders.pop().finish()
    check("has 128 takes" in srun(c, PROGRAM, "memory", user=user, gres=2), "two slices fit now")
    wait_for(lambda: c.states() == ["mixed", "idle"], c.states)
    holders.pop().finish()
    out = srun(c, "echo", "ran", user=user, gres=5, status=1)
    check("vcuda: 5 slices are more than a device has: at most --gres=vcuda:4" in out, out)
    expect_idle(c)


def killed(c, user, other):
    """After each violent end the slices are free, and the node goes on."""
    for words, state in ((["-s", "KILL"], "CANCELLED"), (["--batch", "-s", "KILL"], "FAILED"), ([], "CANCELLED")):
        job = Holder(c, user, 4).computes()
        daemon = c.devices("n1")[1][job.number]
        c.run("scancel", *words, job.number, user=user)
        job.ended(state)
        check(not is_process(daemon), f"vcudad {daemon} runs still")
    # vcudad: the job's calls fail, its next step is told, and the job keeps its slices until it ends.
    job = Holder(c, user, 4).computes()
    os.kill(c.devices("n1")[1][job.number], signal.SIGKILL)
    job.ended("FAILED")
    check(re.search(r"cu\w+: \d+", job.text()), job.text())
    shell = "echo begun; touch ready; while [ ! -e killed ]; do sleep 0.05; done; srun echo through"
    p = c.begin("salloc", "-w", "n1", "--gres=vcuda:3", "sh", "-c", f"srun true; {shell}", user=user)
    wait_for((c.out / "ready").exists, "the allocation")
    daemon, = c.devices("n1")[1].values()
    os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: not is_process(daemon), "vcudad ends")
    check(c.devices("n1")[0] == {0: 3}, c.devices("n1"))
    (c.out / "killed").touch()
    out = p.communicate(timeout=cluster.LIMIT)[0]
    check("begun" in out and "vcuda: the vcudad of this job has ended" in out and "through" not in out, out)
    expect_idle(c)


def prolog(c, user, other):
    """A prolog that is killed, and a vcudad that does not start, drain the node as Slurm does, and keep nothing."""
    hold = c.top / "hold"
    hold.touch()
    number = int(c.run("sbatch", "--parsable", "-w", "n1", "--gres=vcuda:4", "-o", c.out / "again.out", "--wrap", f"{PROGRAM} memory", user=user))
    daemon = wait_for(lambda: c.devices("n1")[1].get(number), "the prolog starts vcudad")
    parent = int(re.search(r"PPid:\s*(\d+)", pathlib.Path(f"/proc/{daemon}/status").read_text(encoding="utf-8"))[1])
    check("slurmstepd" in pathlib.Path(f"/proc/{parent}/cmdline").read_text(encoding="utf-8"), "the prolog's process")
    os.kill(parent, signal.SIGKILL)
    drained(c)
    wait_for(lambda: not is_process(daemon) and not c.devices("n1")[0], "the epilog ends vcudad")
    hold.unlink()
    resume(c, number)
    wait_for(lambda: c.job(number, "JobState") == "COMPLETED", lambda: f"the job runs again: {c.job(number, 'JobState')}")
    check("has 256 takes" in (c.out / "again.out").read_text(encoding="utf-8"), "the job's part")
    expect_idle(c)

    good = c.vcudad_options.read_text(encoding="utf-8")
    c.vcudad_options.write_text("max-contexs = 4\n", encoding="utf-8")
    number = int(c.run("sbatch", "--parsable", "-w", "n1", "--gres=vcuda:1", "-o", c.out / "bad.out", "--wrap", f"{PROGRAM} memory", user=user))
    drained(c)
    log = (c.top / "n1.log").read_text(encoding="utf-8")
    check("vcudad does not start" in log and "max-contexs" in log, "the log of slurmd says why")
    for words in (["srun"], ["salloc", "srun"]):
        out = output_of_lost(c, words, other)
        lost = re.search(r"(?:StepId=|job allocation )(\d+)", out)
        check(lost and "begun" not in out, out)
        wait_for(lambda lost=lost: c.job(lost[1], "JobState") in ("CANCELLED", "FAILED"), lambda lost=lost: f"the job ends: {c.job(lost[1], 'JobState')}")
        drained(c)
    c.vcudad_options.write_text(good, encoding="utf-8")
    resume(c, number)
    wait_for(lambda: c.job(number, "JobState") == "COMPLETED", lambda: f"the job runs again: {c.job(number, 'JobState')}")
    expect_idle(c)


def output_of_lost(c, words, user):
    """The output of a job that its prolog ends. Slurm may drain the node once more for the job before: the node is resumed until the job starts."""
    c.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    p = c.begin(words[0], "-w", "n1", "--gres=vcuda:1", *words[1:], "echo", "begun", user=user)

    def ends():
        if c.states()[0].startswith("drain") and c.run("squeue", "-h", "-u", user.pw_name, "-t", "PENDING", status=None).strip():
            c.run("scontrol", "update", "NodeName=n1", "State=RESUME")
        return p.poll() is not None
    wait_for(ends, lambda: f"{words} ends: {c.run('sinfo', '-N', '-o', '%N %T %E')}{c.run('squeue')}")
    check(p.returncode, f"{words}: status {p.returncode}")
    return p.stdout.read()


def drained(c):
    wait_for(lambda: c.states()[0].startswith("drain"), lambda: f"n1 is drained: {c.states()}")


def resume(c, number):
    """As an operator does. Slurm lets a job whose prolog failed wait for two minutes."""
    wait_for(lambda: c.job(number, "JobState") == "PENDING", lambda: f"the job is held: {c.job(number, 'JobState')}")
    c.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    c.run("scontrol", "release", number)
    c.run("scontrol", "update", f"JobId={number}", "StartTime=now")


def restarted(c, user, other):
    """Jobs go on while slurmd starts again, and a job that ends meanwhile gives its slices back later."""
    jobs = [Holder(c, user, 2).computes(), Holder(c, other, 4).computes()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        c.slurmds["n1"].send_signal(number)
        c.slurmds["n1"].wait(cluster.LIMIT)
        if number == signal.SIGKILL:
            jobs[0].file.touch()
            wait_for(lambda: jobs[0].text().endswith("right\n"), "the job ends without slurmd")
            check(c.devices("n1")[0] == {0: 2, 1: 4}, c.devices("n1"))
        c.start_slurmd("n1")
    jobs.pop(0).ended("COMPLETED")
    jobs[0].finish()
    # A file of a job that no one knows, as after a loss of power.
    (RUN / "n1/4000000.job").write_text(f"device 0 slices 4 {SIZE} pid 0 started 0\n", encoding="utf-8")
    (RUN / "n1/4000001.job").write_text(f"device 1 slices 4 {SIZE} pid {os.getpid()} started 1\n", encoding="utf-8")
    check("has 256 takes" in srun(c, PROGRAM, "memory", user=user, gres=4), "stale files give way")
    check(not list((RUN / "n1").glob("400000*")), "stale files are removed")
    expect_idle(c)


def resized(c, user, other):
    """While a job has slices of another size than plugstack.conf says now, its device is given to no one."""
    text = (c.top / "plugstack.conf").read_text(encoding="utf-8").strip()
    check("slices=4 slice-memory=64M" in text, text)
    job = Holder(c, user, 4).computes()
    check(c.devices("n1")[0] == {0: 4}, c.devices("n1"))
    c.write("plugstack.conf", text.replace("slices=4 slice-memory=64M", "slices=8 slice-memory=32M"))
    out = srun(c, PROGRAM, "memory", user=other, gres=4, status=1)
    check(f"no device of node n1 has 4 free slices; free are 0 (job {job.number} has slices of another size)" in out and "takes" not in out, out)
    c.write("plugstack.conf", text.replace("slice-memory=64M", "slice-memory=32M"))
    second = Holder(c, other, 4).computes()
    check(c.devices("n1")[0] == {0: 4, 1: 4}, c.devices("n1"))
    second.finish()
    job.finish()
    check("has 128 takes" in srun(c, PROGRAM, "memory", user=other, gres=4), "the new size")
    expect_idle(c)


def unreadable(c, user, other):
    """A job whose file cannot be read keeps its slices and its vcudad, and Slurm drains the node."""
    job = Holder(c, user, 4).computes()
    daemon = c.devices("n1")[1][job.number]
    file = RUN / f"n1/{job.number}.job"
    good = file.read_text(encoding="utf-8")
    file.write_text("device\n", encoding="utf-8")
    log = c.top / "n1.log"
    out = srun(c, "echo", "ran", user=other, gres=4, status=1)
    check("ran" not in out, out)
    drained(c)
    check(f"{file} cannot be read" in log.read_text(encoding="utf-8"), "the log of slurmd names the file")
    c.run("scancel", job.number, user=user)
    wait_for(lambda: "Epilog error" in c.run("sinfo", "-R", "-h", "-o", "%E") or "epilog failed" in log.read_text(encoding="utf-8"), "the epilog fails")
    check(is_process(daemon) and file.exists(), "the vcudad and its file")
    # Repaired, the file is that of a job that has ended.
    file.write_text(good, encoding="utf-8")
    wait_for(lambda: c.job(job.number, "JobState") == "CANCELLED", "the job is cancelled")
    c.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    second = Holder(c, user, 4).computes()
    check("has 256 takes" in srun(c, PROGRAM, "memory", user=other, gres=4), "the slices are free")
    check(not is_process(daemon) and not file.exists(), "the vcudad and its file are gone")
    second.finish()
    expect_idle(c)


def waits(c, user, other):
    """A prolog that waits for slurmctld's answer about another job holds no prolog and no epilog back."""
    text = (c.top / "plugstack.conf").read_text(encoding="utf-8").strip()
    c.write("plugstack.conf", text.replace("integrations/slurm/spank_vcuda.so", "test/slurm/spank_vcuda_held.so"))
    hold = pathlib.Path("/run/hold")
    hold.mkdir()
    first, second = Holder(c, user, 3).computes(), Holder(c, other, 3).computes()
    question = hold / str(first.number)
    question.touch()
    third = Holder(c, user, 2)
    wait_for(question.with_suffix(".asked").exists, "the prolog asks for a job that may have ended")
    second.finish()
    fourth = Holder(c, other, 1).computes()
    check(third.number not in c.devices("n1")[1], c.devices("n1"))
    question.unlink()
    third.computes()
    check(c.devices("n1")[0] == {0: 4, 1: 2}, c.devices("n1"))
    for job in (first, third, fourth):
        job.finish()
    # A job that has ended, by the answer, and has come again before the answer.
    old, ended = RUN / "n1/4000000.job", RUN / "n1/4000001.job"
    for device, file in enumerate((old, ended)):
        file.write_text(f"device {device} slices 4 {SIZE} pid 0 started 0\n", encoding="utf-8")
    question = hold / old.stem
    question.touch()
    job = Holder(c, user, 4)
    wait_for(question.with_suffix(".asked").exists, "the prolog asks for a job that has ended")
    old.write_text(old.read_text(encoding="utf-8").replace("reserved 1", "reserved 2"), encoding="utf-8")
    question.unlink()
    job.computes()
    check(c.devices("n1")[0] == {0: 4, 1: 4} and old.exists() and not ended.exists(), c.devices("n1"))
    job.finish()
    old.unlink()
    expect_idle(c)


def environment(c, user, other):
    """A user who sets our variables, or Slurm's, gains nothing."""
    job = Holder(c, other, 2).computes()
    foreign = RUN / "n1" / str(job.number) / "socket"
    daemon = c.devices("n1")[1][job.number]
    forged = {"VCUDA_SOCKET": str(foreign), "VCUDA_TRANSPORT": "local", "VCUDA_CPU_MEMORY": "64G", "VCUDA_CPU_DEVICES": "8",
            "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_GRES": "vcuda:8", "SLURM_GRES": "vcuda:1", "SLURM_STEP_GRES": "vcuda:8", "SLURMD_NODENAME": "n2",
            "SPANK_VCUDA": "8", "SLURM_SPANK_VCUDA": "8", "LD_LIBRARY_PATH": "/tmp"}
    out = c.run("srun", "-w", "n1", "--gres=vcuda:1", PROGRAM, "memory", user=user, variables=forged)
    check(re.search(r"^has 64 takes \d+ then 2$", out, re.MULTILINE), out)
    out = c.run("srun", f"--jobid={job.number}", PROGRAM, "memory", user=user, status=1)
    check("takes" not in out, out)
    limit = [f"--control={RUN}/n1/control/{daemon}", f"job-{job.number}", "max-device-memory=127M"]
    # In the job itself, where the plug-in has no say: other sockets, other files, the daemons.
    reach = f"VCUDA_SOCKET={foreign} VCUDA_TRANSPORT=local LD_LIBRARY_PATH=/run/build/guest/libcuda {PROGRAM} memory"
    own = "control=$(dirname $(dirname $VCUDA_SOCKET))/control; ls $control/*"
    attempts = [" ".join(["/run/build/cli/vcuda vm set", *limit]), reach, f"ls {foreign.parent}", f"ls {RUN}/n1/control", f"ls {RUN}/n1/arbiter", f"kill -9 {daemon}", own, 'rm "$VCUDA_SOCKET"',
                'kill -9 $(cut -d" " -f 12 $(dirname $VCUDA_SOCKET).job)', f"echo x > {RUN}/n1/{job.number}.job", f"rm -f {RUN}/n1/{job.number}.job",
                f"touch {RUN}/n1/7.job"]
    script = "".join(f"if {attempt}; then echo gained {i}; fi\n" for i, attempt in enumerate(attempts))
    out = srun(c, "sh", "-c", f"{script}{PROGRAM} memory", user=user, gres=1)
    check("no permission to use the local transport" in out and "gained" not in out, out)
    check(len(re.findall("takes", out)) == 1 and "has 64 takes" in out, out)
    out = srun(c, "sh", "-c", script, user=user, gres=0, status=None)
    check("gained" not in out and "takes" not in out, out)
    # The environment of another job, with which a job was submitted, is not kept.
    inherited = {"VCUDA_SOCKET": str(foreign), "VCUDA_TRANSPORT": "local"}
    for path, rest in (("/run/build/guest/libcuda:/tmp", "/tmp"), ("/run/build/guest/libcuda", ""), ("/run/build/guest/libcuda.so:/tmp",) * 2):
        out = srun(c, "sh", "-c", "echo socket=$VCUDA_SOCKET, path=$LD_LIBRARY_PATH.", user=user, gres=0,
                   variables=dict(inherited, LD_LIBRARY_PATH=path))
        check(out.startswith(f"socket=, path={rest}.\n"), out)
    # A long path is not cut.
    out = srun(c, "sh", "-c", "echo ${#LD_LIBRARY_PATH}", user=user, gres=1, variables={"LD_LIBRARY_PATH": "/x" * 15000})
    check(out.startswith(f"{30000 + len('/run/build/guest/libcuda:')}\n"), out)
    out = srun(c, "echo", "begun", user=user, gres=1, status=1, variables={"LD_LIBRARY_PATH": "/x" * 20000})
    check("vcuda: LD_LIBRARY_PATH of the job is longer than 32 KiB" in out and "begun" not in out, out)
    check(is_process(daemon), "the other job's vcudad")
    # Root gains by each attempt.
    second = Holder(c, user, 1).computes()
    out = c.run("sh", "-c", script, variables={"VCUDA_SOCKET": str(RUN / "n1" / str(second.number) / "socket")})
    failed = [attempt for i, attempt in enumerate(attempts) if f"gained {i}\n" not in out]
    check(not failed, f"{failed} fail for root: {out}")
    (RUN / "n1/7.job").unlink()
    shutil.rmtree(foreign.parent)
    job.ended("FAILED")
    second.ended("FAILED")
    expect_idle(c)


def commands(c, user, other):
    """Each command of the how-to, by its user."""
    program = c.out / "program"
    program.write_text(f"#!/bin/sh\nexec {PROGRAM} memory\n", encoding="utf-8")
    program.chmod(0o755)
    text = pathlib.Path(HOW_TO).read_text(encoding="utf-8")
    found = re.findall(r"^    ((?:srun|sbatch|VCUDA_CONTROL=\S+) .*)$", text, re.MULTILINE)
    path = {"PATH": f"/run/build/cli:{os.environ['PATH']}"}
    for command in found:
        job = command.startswith("s")
        if job:
            command = command.replace("sbatch", "sbatch --wait -o array-%a.out")
            out = c.run("sh", "-c", command, user=user, variables=path)
            for file in c.out.glob("array-*.out"):
                out += file.read_text(encoding="utf-8")
                file.unlink()
            slices = int(re.search(r"vcuda:(\d)", command)[1])
            count = 4 if "--array=0-3" in command else 2 if "-N2" in command else 1
            size = f"memory 0 of {slices * SLICE_MIB} MiB" if "smi" in command else f"has {slices * SLICE_MIB} takes"
            check(out.count(size) == count, f"{command}: {out}")
        else:
            holder = Holder(c, user, 1).computes()
            out = c.run("sh", "-c", command.replace("node1", "n1").replace("-u vcuda", "-u nobody"), variables=path)
            check(f"job-{holder.number} " in out, out)
            holder.finish()
    check(len(found) == 6, found)
    expect_idle(c)


cluster.enter()
first, second = users()
with cluster.cluster(BUILD, HOW_TO) as made:
    globals()[SCENARIO](made, first, second)
