# SPDX-License-Identifier: Apache-2.0
"""The groups of cases: what is run in each, and which figures come of it."""

import pathlib
import statistics
import subprocess
import sys
import threading
import time

import applications
import watch
from sides import Failed, end, figures_of, last_words


class Program:
    """A program that prints its figures."""

    def __init__(self, *command, timeout=120, repeats=1):
        self.command, self.timeout, self.repeats = command, timeout, repeats

    def measure(self, side):
        result, _ = side.run(self.command, self.timeout)
        figures = figures_of(result.stdout)
        if not figures:
            raise Failed(f"{self} printed no figures")
        return figures

    def __str__(self):
        return " ".join(pathlib.Path(word).name if n == 0 else str(word) for n, word in enumerate(self.command))


class Start(Program):
    """A program from start to exit: a new process each time. The names of its printed values get the prefix too."""

    def __init__(self, name, *command, repeats):
        super().__init__(*command, repeats=repeats)
        self.name = name

    def measure(self, side):
        result, seconds = side.run(self.command, self.timeout)
        printed = {f"{self.name}_{key}": value for key, value in figures_of(result.stdout).items() if key == "context"}
        return {f"{self.name}_start_to_exit": (seconds * 1e3, "ms"), **printed}


class Scale(Program):
    """Several processes at once; where they can be seen from here, also what they cost while they work and when idle."""

    SETTLE, IDLE = 0.2, 1.0  # s: after the last call, and then how long is looked on

    def __init__(self, program, seconds, work, processes, streams, idle=False):
        super().__init__(program, "--seconds", seconds, work, processes, streams)
        self.idle = idle
        self.prefix = f"{work}_{processes}p_{streams}s"

    def measure(self, side):
        if not side.local:
            return super().measure(side)
        process = side.start([self.command[0], "--marks", *self.command[1:]], stdin=subprocess.PIPE)
        late = threading.Timer(self.timeout, end, [process])
        late.start()
        try:
            return self.follow(side, process)
        finally:
            late.cancel()
            if process.poll() is None:
                end(process)

    def follow(self, side, process):
        figures, lines = {}, []
        before = when = None
        for line in process.stdout:
            if not line.startswith("mark "):
                lines.append(line)
                continue
            _, name, *pids = line.split()
            pids = [int(pid) for pid in pids]
            if any(watch.name_of(pid) != "scale-bench" for pid in pids):
                pids = []  # numbers of another machine
            pairs = watch.partners(pids, watch.descendants(side.daemon.process.pid)) if side.daemon else {}
            sets = {"process": pids, "worker": [worker for worker, _ in pairs.values()]}
            if name == "ready":
                before, when = {key: watch.total_cpu(found) for key, found in sets.items()}, time.monotonic()
            elif pids:
                passed = time.monotonic() - when
                for key, found in sets.items():
                    if found:
                        busy = watch.total_cpu(found) - before[key]
                        figures[f"{self.prefix}_cpu_{key}"] = (100 * busy / passed / len(found), "%")
                figures.update(self.look_idle(sets, pairs) if self.idle else {})
            process.stdin.write("\n")
            process.stdin.flush()
        errors = process.stderr.read()
        result = subprocess.CompletedProcess(self.command, process.wait(), "".join(lines), errors)
        if result.returncode:
            raise Failed(last_words(result))
        return {**figures_of(result.stdout), **figures}

    def look_idle(self, sets, pairs):
        """Memory of the processes, which all wait in read(), and what they use of a processor meanwhile."""
        figures = {}
        time.sleep(self.SETTLE)
        before, when = {key: watch.total_cpu(found) for key, found in sets.items()}, time.monotonic()
        time.sleep(self.IDLE)
        passed = time.monotonic() - when
        for key, found in sets.items():
            if not found:
                continue
            busy = watch.total_cpu(found) - before[key]
            figures[f"{self.prefix}_idle_cpu_{key}"] = (100 * busy / passed / len(found), "%")
            figures[f"{self.prefix}_resident_{key}"] = (statistics.mean(map(watch.resident_mib, found)), "MiB")
        if pairs:
            figures[f"{self.prefix}_shared"] = (statistics.mean(common for _, common in pairs.values()), "MiB")
        return figures


def driver_group(name, *more):
    def jobs(options):
        return [Program(options.programs / "driver-bench", *options.driver_options, *more, name)]
    return jobs


def start_jobs(options):
    repeats = 2 if options.quick else 5
    jobs = [Start("driver_program", options.programs / "driver-bench", "start", repeats=repeats)]
    if options.vector_add:
        jobs.append(Start("vectorAdd", options.vector_add, repeats=repeats))
    return jobs


def processes_jobs(options):
    return [Scale(options.programs / "scale-bench", options.seconds, work, n, 1) for work in ("launch", "copy") for n in options.counts]


def scale_jobs(options):
    return [Scale(options.programs / "scale-bench", options.seconds, "request", processes, streams, idle=streams == 1)
            for processes in options.counts for streams in options.counts]


def sgemm_jobs(options):
    """With the first libcublas that is there on both sides, or else on the virtual one."""
    size = "256" if options.quick else "1024" if options.software else "4096"
    reasons, ours = [], None
    for version in ("13", "12", "11"):
        job = Program(options.programs / "blas-bench", f"libcublas.so.{version}", size)
        running = []
        for side in options.sides:
            try:
                side.run([*job.command[:2], "64"], job.timeout)
                running.append(side)
            except Failed as why:
                reasons.append(f"{side.name}: {why}")
        if len(running) == len(options.sides):
            return [job]
        if any(side.name == "virtual" for side in running):
            ours = ours or job
    if ours:
        return [ours]
    raise Failed("; ".join(reasons[:2]))


def nccl_jobs(options):
    """Both layouts of two ranks, where NCCL and two devices are there on all sides."""
    program = [options.programs / "nccl-bench", "--library", options.nccl]
    for side in options.sides:
        side.run([*program, "--max-mib", "1", "--rounds", "1", "--only", "broadcast", "processes"], 120)
    program += ["--max-mib", "1", "--rounds", "5"] if options.quick else []
    return [Program(*program, *more, layout, timeout=300) for layout in ("processes", "threads") for more in ([], ["--graph"])]


def ddp_jobs(options):
    """Training on two devices, each step of which ends with the sum of the gradients."""
    steps = ["--steps", "5"] if options.quick else []
    jobs = [Program(sys.executable, pathlib.Path(__file__).with_name("ddp.py"), *steps, kind, timeout=300) for kind in ("mlp", "gpt")]
    done = subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.device_count() > 1, 'there are no two devices'"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"`{sys.executable}` with PyTorch: {last_words(done)}")
    return jobs


def samples_jobs(options):
    return applications.samples(options)


def rodinia_jobs(options):
    return applications.rodinia(options)


def pytorch_jobs(options):
    done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"`{sys.executable} -c 'import torch'` fails: {last_words(done)}")
    quick = ["--quick"] if options.quick else []
    return [Program(sys.executable, pathlib.Path(__file__).with_name("gpt.py"), *quick, timeout=300)]


GROUPS = {
    "launch": ("launches: issue, sustained, with the wait", driver_group("launch")),
    "copy": ("copies of 4 B to 1 GiB, pinned and pageable; to an idle GPU, behind a kernel", driver_group("copy")),
    "memory": ("allocations: of the device, pinned, in stream order", driver_group("memory")),
    "event": ("events and queries", driver_group("event")),
    "module": ("loading modules, new ones and cached ones", driver_group("module")),
    "image": ("getting code of 1 to 100 MiB to the host", driver_group("image")),
    "graph": ("graphs of 1, 10 and 100 nodes", driver_group("graph")),
    "start": ("a program that adds vectors, from start to exit", start_jobs),
    "processes": ("launches and copies of several processes together", processes_jobs),
    "scale": ("requests of several processes with several streams: rate, latency, memory, processor time", scale_jobs),
    "samples": ("12 of NVIDIA's cuda-samples (--samples DIR)", samples_jobs),
    "rodinia": ("8 of the Rodinia benchmarks (--rodinia DIR)", rodinia_jobs),
    "sgemm": ("matrix products of cuBLAS", sgemm_jobs),
    "nccl": ("collective operations of NCCL between two GPUs (--nccl FILE), checked and timed", nccl_jobs),
    "ddp": ("training steps of PyTorch on two GPUs with NCCL (if PyTorch is installed)", ddp_jobs),
    "pytorch": ("a training step and a decoded token of a GPT-2-sized model (if PyTorch is installed)", pytorch_jobs),
}
