# SPDX-License-Identifier: Apache-2.0
"""The parts of local.py's scenarios: a daemon of their own, programs of the build, and failures."""

import contextlib
import ctypes
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time

# Seconds. For what hangs: a busy machine may take long.
LIMIT = 600

BUILD = ""
BACKEND = os.environ.get("VCUDA_TEST_BACKEND", "cpu")
THREAD_SANITIZER = "TSAN_OPTIONS" in os.environ  # test/meson.build
if THREAD_SANITIZER:
    os.environ["VCUDA_SANDBOX"] = "off"  # a worker that starts anew reads the sanitizer's list of suppressions
# Programs have faults one after another.
os.environ.setdefault("VCUDA_CPU_FAULTS", "context")
EXAMPLES = ["vectorAdd", "matrixMul", "addOne", "zeroCopy", "legacyLaunch"]

# struct vcuda_channel_message of protocol/ipc/channel.h
MESSAGE = struct.Struct("<IIQQQQIIIIiI")
ATTACH = 1


def random_seed():
    """The seed of a random search: VCUDA_TEST_SEED repeats a run."""
    seed = int(os.environ.get("VCUDA_TEST_SEED") or random.randrange(1, 1 << 32))
    print(f"seed: VCUDA_TEST_SEED={seed} repeats this run", flush=True)
    return seed


def fail(text):
    sys.exit(f"FAILED: {text}")


def check(condition, text):
    if not condition:
        fail(text)


def build(path):
    return os.path.join(BUILD, path)


def read_or_none(path):
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as f:
        return f.read().strip()
    return None


def show_process(process, depth=0):
    """Prints what each thread of the process and of its descendants waits for."""
    for thread in sorted(os.listdir(f"/proc/{process}/task")):
        place = f"/proc/{process}/task/{thread}"
        stack = (read_or_none(f"{place}/stack") or "").replace("\n", " ")
        print(f"{'  ' * depth}{process}/{thread} {read_or_none(f'{place}/comm')}: call {read_or_none(f'{place}/syscall')} {stack}", file=sys.stderr)
        for child in (read_or_none(f"{place}/children") or "").split():
            with contextlib.suppress(OSError):
                show_process(child, depth + 1)


def vcuda(*args, **kwargs):
    """Runs the command. One that takes longer than LIMIT hangs: what it waits for is printed."""
    with subprocess.Popen([build("cli/vcuda"), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs) as p:
        try:
            out, errors = p.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            show_process(p.pid)
            p.kill()
            raise
        return subprocess.CompletedProcess(p.args, p.returncode, out, errors)


def run_example(name, *args, env=None):
    r = vcuda("run", *([] if env else ["--backend", BACKEND]), "--", build(f"examples/{name}"), *args, env=env)
    check(r.returncode == 0, f"{name} ended with {r.returncode}:\n{r.stdout}{r.stderr}")
    check(r.stdout.rstrip().endswith("Test PASSED"), f"{name} printed:\n{r.stdout}{r.stderr}")
    return r.stdout


@contextlib.contextmanager
def daemon(*options):
    """A vcudad of our own: yields (process, environment of its clients). A test that kills it sets the process's is_killed."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        log = open(os.path.join(directory, "log"), "w+", encoding="utf-8")
        process = subprocess.Popen([build("host/daemon/vcudad"), "--socket", path, "--backend", BACKEND, *options], stderr=log,
                                   env=dict(os.environ, VCUDA_TIMES="1") if options else None)
        process.log_path, process.is_killed = log.name, False
        try:
            wait_until(lambda: os.path.exists(path) or process.poll() is not None, "the daemon makes no socket")
            # the second: where no more was built than the thread sanitizer's tests need
            libraries = build("guest/lib") + ":" + build("guest/libcuda")
            env = dict(os.environ, VCUDA_SOCKET=path, VCUDA_TRANSPORT="local", LD_LIBRARY_PATH=libraries)
            yield process, env
            check(process.is_killed or process.poll() is None, "the daemon died")
        finally:
            process.terminate()
            process.wait(LIMIT)
            log.seek(0)
            text = log.read()
            log.close()
            sys.stderr.write(text)
        check("Sanitizer:" not in text, "a sanitizer found something in the daemon or a worker")


def start_steady(env, seconds=LIMIT):
    """A program that computes until then, or until end_steady()."""
    p = subprocess.Popen([build("test/local/steady"), str(seconds)], env=env, stdout=subprocess.PIPE, text=True)
    line = p.stdout.readline()
    check(line == "ready\n", f"steady said {line!r}")
    return p


def end_steady(p):
    """Ends the program, whose results must have been right."""
    p.terminate()
    check(p.wait(LIMIT) == 0, f"steady ended with {p.returncode}: {p.stdout.read()}")


# Programs that vcudad starts besides workers, as the kernel shows their names.
HELPERS = ("(vcuda-gpu-use", "(vcuda-checkpoin", "(vcuda-arbiter", "(vcuda-keeper")


def children(pid):
    """The child processes of a process; for a vcudad its workers."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{entry}/stat", encoding="utf-8") as f:
                    name, fields = f.read().rsplit(")", 1)
                fields = fields.split()
                if int(fields[1]) == pid and fields[0] != "Z" and not name.endswith(HELPERS):
                    found.append(int(entry))
    return found


def need_thread_sanitizer():
    """Ends the test where programs with the thread sanitizer do not start: it has its shadow at fixed addresses."""
    no_randomize = 0x0040000
    bits = 32
    with contextlib.suppress(OSError), open("/proc/sys/vm/mmap_rnd_bits", encoding="utf-8") as f:
        bits = int(f.read())
    if bits > 28:
        # Address space randomisation may place a program or library in the shadow, unless it is off for programs that
        # start from here.
        libc = ctypes.CDLL(None)
        layout = libc.personality(0xffffffff)
        if layout != -1:
            libc.personality(layout | no_randomize)
    # Says how it is used, and ends.
    r = subprocess.run([build("host/worker/vcuda-worker")], capture_output=True, text=True, timeout=LIMIT)
    if r.returncode != 2:
        print(f"programs with the thread sanitizer do not run here (status {r.returncode}): it needs fixed addresses, for "
              "which the kernel must allow personality(ADDR_NO_RANDOMIZE), and address space without a limit\n"
              + r.stderr[-600:])
        sys.exit(77)


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def wait_until(condition, text):
    end = time.monotonic() + LIMIT
    while not condition():
        check(time.monotonic() < end, text)
        time.sleep(0.02)


def wait_warm(d, count, what="has a context"):
    """Until `count` workers have said that they are ready; returns their process numbers."""
    def ready():
        with open(d.log_path, encoding="utf-8") as f:
            said = {int(pid) for pid in re.findall(rf"^vcuda-time \S+ (\d+) worker: {what}$", f.read(), re.M)}
        return len(children(d.pid)) == count and said >= set(children(d.pid))
    wait_until(ready, f"no {count} warm workers")
    return set(children(d.pid))
