# SPDX-License-Identifier: Apache-2.0
"""Programs that do what a naive remoting does not expect."""

import glob
import os
import resource
import subprocess
import time

from harness import BACKEND, LIMIT, build, check, vcuda

AWKWARD = ["wild-event", "wild-stream", "copies", "per-thread", "capture", "graph", "stalled", "backlog", "contexts", "list", "handles", "fork", "threads"]
AWKWARD_RUNTIME = ["printed", "printed-beside", "printed-held", "printed-fault", "polled", "defaults", "plugins", "handles"]


def run_awkward(program, case, *args, **env):
    """Whole output of a program that does one awkward thing; what it compiles is its own and kept nowhere."""
    env = dict(os.environ, VCUDA_CPU_CACHE="0", CUDA_CACHE_DISABLE="1", **env) if env else None
    r = vcuda("run", "--backend", BACKEND, "--", build(f"test/local/{program}"), case, *args, env=env)
    check(r.returncode == 0, f"{program} {case}: {r.returncode}\n{r.stdout[-2000:]}{r.stderr[-2000:]}")
    return r.stdout


def awkward():
    """Programs that break a naive remoting, by the driver API."""
    for case in AWKWARD:
        out = run_awkward("awkward", case)
        check(out.endswith(f"{case}: passed\n"), f"{case}:\n{out}")


def awkward_compile():
    """A thread's long compilation holds up no other."""
    print(run_awkward("awkward", "compile", VCUDA_CPU_COMPILE="optimised"))


def awkward_queues():
    """Full queues of some contexts leave others alone, and so does who makes objects without end."""
    run_awkward("awkward", "queues")
    if BACKEND == "cpu":  # a GPU's driver has a limit of its own, lower or higher
        check(run_awkward("awkward", "objects").startswith("65536 streams\n"), "streams")


def ends_blocked(case):
    """Output of a program that ends while a thread of it writes to a full pipe."""
    with subprocess.Popen([build("cli/vcuda"), "run", "--backend", BACKEND, "--", build("test/local/awkward-runtime"), case],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        line = p.stderr.readline()
        time.sleep(1.5)  # longer than libcuda waits at exit for text that is being fetched
        out, err = p.communicate(timeout=LIMIT)
    check(line == "the pipe is full\n" and p.returncode == 0, f"{case}: {p.returncode}\n{line}{err}")
    return out.replace(".", "")


def awkward_runtime():
    """The same by the runtime."""
    plugins = sorted(glob.glob(build("test/local/libawkward-plugin-*.so")))
    check(len(plugins) == 2, f"plugins: {plugins}")
    for case in AWKWARD_RUNTIME:
        out = run_awkward("awkward-runtime", case, *(plugins if case == "plugins" else []))
        check(out.endswith(f"{case}: passed\n"), f"{case}:\n{out}")
        if case == "printed":
            lines = "".join(f"value {n}\nafter {n}\n" for n in range(1, 22))
            check(out == lines + "printed: passed\n", f"order:\n{out}")
        if case == "printed-fault":
            check(out == "value 1\nafter the fault\nprinted-fault: passed\n", f"{case}:\n{out}")
        if case == "printed-held":
            check(out == "value 1\nvalue 7\nprinted-held: passed\n", f"{case}:\n{out}")


def awkward_ends():
    """Programs that end beside threads of theirs: kernels' text comes once, and before the end. VCUDA_TEST_RUNS: how often."""
    for _ in range(int(os.environ.get("VCUDA_TEST_RUNS", "5"))):
        out = run_awkward("awkward-runtime", "ends")
        check(out.endswith("the last handler\nthe end\n") and out.count("value 1\n") == 100, f"ends:\n{out[-2000:]}")
    for _ in range(int(os.environ.get("VCUDA_TEST_RUNS", "30"))):
        out = run_awkward("awkward-runtime", "ends-printing")
        lines = out.splitlines()
        check(len(lines) >= 50 and lines == [f"value {n}" for n in range(1, len(lines) + 1)], f"ends-printing:\n{out[-2000:]}")
    for case in ("ends-blocked", "ends-blocked-child"):
        out = ends_blocked(case)
        check(out == "value 1\nvalue 7\n", f"{case}:\n{out}")


def awkward_environment():
    """CUDA's own variables, and a stack without limit, which moves all that a process maps."""
    run_awkward("awkward", "blocking", CUDA_LAUNCH_BLOCKING="1")
    for visible, expected in (("0", "1 devices"), ("0,-1", "1 devices"), ("0,1000,0", "1 devices"), ("", "cuInit: 100"),
                              ("-1", "cuInit: 100"), ("0,0", "cuInit: 101"), ("none", "cuInit: 100")):
        out = run_awkward("awkward", "devices", CUDA_VISIBLE_DEVICES=visible)
        check(out.startswith(expected), f"CUDA_VISIBLE_DEVICES={visible}: {out}")
    for mode in ("EAGER", "LAZY"):
        out = run_awkward("awkward", "devices", CUDA_MODULE_LOADING=mode)
        check(mode.lower() in out, f"CUDA_MODULE_LOADING={mode}: {out}")
        run_awkward("awkward", "copies", CUDA_MODULE_LOADING=mode)
    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        print("the stack has a limit here that cannot be lifted")
        return
    for inner in (True, False):
        # the program alone, then daemon and worker too
        command = ["sh", "-c", 'ulimit -s unlimited && exec "$@"', "sh"]
        run = [build("cli/vcuda"), "run", "--backend", BACKEND, "--"]
        for program in ("test/local/awkward list", "test/local/awkward per-thread", "examples/zeroCopy", "examples/vectorAdd"):
            program = [build(program.split()[0]), *program.split()[1:]]
            r = subprocess.run(run + command + program if inner else command + run + program, capture_output=True, text=True,
                               timeout=LIMIT, check=False)
            check(r.returncode == 0, f"{program} without a limit of the stack: {r.returncode}\n{r.stdout}{r.stderr}")
