# SPDX-License-Identifier: Apache-2.0
"""An allocation that a process exported by descriptor outlives the process and its worker, and nothing else does."""

import json
import os
import signal
import subprocess
import tempfile

from harness import BACKEND, LIMIT, build, check, children, daemon, vcuda, wait_until

MEMORY = 64 << 20  # memory that the program exports to be counted, in parts that count
QUOTA = (256 if BACKEND == "cpu" else 2048) << 20


def start(env, *args):
    return subprocess.Popen([build("test/local/exports"), *args], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def go_on(p):
    p.stdin.write("\n")
    p.stdin.flush()


def end(p, what):
    out, err = p.communicate("", LIMIT)
    check(p.returncode == 0 and out.endswith("exports: passed\n"), f"{what}: {p.returncode} {out}{err}")


def run(env, between, *args):
    """Runs a part, and calls `between` wherever the part waits."""
    p = start(env, *args)
    while (line := p.stdout.readline()) == "next?\n":
        between()
        go_on(p)
    out, err = p.communicate("", LIMIT)
    check(p.returncode == 0 and line + out == "exports: passed\n", f"{' '.join(args)}: {p.returncode} {line}{out}{err}")


def alone(d, clients=0):
    """Waits until only so many workers are left."""
    wait_until(lambda: len(children(d.pid)) == clients, "a worker outlived its process")


def exports():
    """Another process imports after the exporter has ended, however often; the last close frees the memory."""
    with daemon("--max-device-memory", str(QUOTA)) as (d, env):
        for part in "exits", "pidfd", "twice", "released", "device", "pool":
            run(env, lambda: alone(d), part)
        for part in "close", "mapping":
            run(env, lambda: alone(d, 1), part)
        alone(d)
    if BACKEND == "cpu":
        r = vcuda("run", "--backend", "cpu", "--", build("test/local/exports"), "device", env=dict(os.environ, VCUDA_CPU_DEVICES="2"))
        check(r.returncode == 0, f"two devices: {r.returncode} {r.stdout}{r.stderr}")


def exports_killed():
    """The exporter is killed by SIGKILL, and a daemon that would end without clients waits for the last descriptor."""
    with daemon("--max-device-memory", str(QUOTA)) as (d, env):
        run(env, lambda: alone(d), "killed")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        with subprocess.Popen([build("host/daemon/vcudad"), "--socket", path, "--backend", BACKEND, "--exit-when-idle", "1"]) as d:
            wait_until(lambda: os.path.exists(path), "the daemon makes no socket")
            libraries = build("guest/lib") + ":" + build("guest/libcuda")
            env = dict(os.environ, VCUDA_SOCKET=path, VCUDA_TRANSPORT="local", LD_LIBRARY_PATH=libraries)
            p = start(env, "killed")
            check(p.stdout.readline() == "next?\n", "the exporter does not come so far")
            alone(d)
            check(keepers(d), "there is no keeper")
            # Twice as long as the daemon is idle before it ends; a busy machine only makes the test weaker.
            subprocess.run(["sleep", "2"], check=True)
            go_on(p)
            end(p, "killed")
            check(d.wait(LIMIT) == 0, "the daemon failed")


def keepers(d):
    return [p for p in os.listdir("/proc") if p.isdigit() and parent_and_name(p) == (d.pid, "vcuda-keeper")]


def parent_and_name(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as f:
            name, fields = f.read().split("(", 1)[1].rsplit(")", 1)
        return int(fields.split()[1]), name
    except OSError:
        return None


def used(control, name):
    r = vcuda("vm", "list", "--json", "--control", control)
    check(r.returncode == 0, r.stderr)
    return json.loads(r.stdout)[0]["quotas"][name]


def device_memory(control):
    return used(control, "max-device-memory")["used"]


def counted(control):
    count = device_memory(control)
    check(count >= MEMORY, f"{count} bytes are counted, and descriptors hold {MEMORY}")
    return count


def kept(d, control):
    r = vcuda("vm", "exports", "--json", "--control", control, str(d.pid))
    check(r.returncode == 0, r.stderr)
    return json.loads(r.stdout)["exports"]


def freed(d, env, control):
    """The operator frees what only descriptors hold."""
    p = start(env, "counted")
    check(p.stdout.readline() == "next?\n", "the exporter does not come so far")
    wait_until(lambda: counted(control) == MEMORY and kept(d, control), "something else counts")
    user = os.getuid()
    part, = kept(d, control)
    check(part["count"] > 0 and part == {"kind": "local", "user": user, "gpu": 0, "count": part["count"], "memory": MEMORY}, f"{part}")
    check(json.loads(vcuda("vm", "list", "--json", "--control", control).stdout)[0]["exports"] == [part], "vm list")
    top = vcuda("top", "--once", "--control", control).stdout
    check(f"only descriptors hold {part['count']} exports of user {user}, 64M of GPU 0" in top, top)
    table = vcuda("vm", "exports", "--control", control, str(d.pid)).stdout.split()
    check(table == ["GUEST", "GPU", "EXPORTS", "MEMORY", "user", str(user), "0", str(part["count"]), "64M"], f"{table}")
    check(vcuda("vm", "free", "--control", control, str(d.pid), str(user + 1)).stdout == "freeing 0\n", "another user's")
    check(vcuda("vm", "free", "--control", control, str(d.pid), "nobody").returncode == 125, "no number")
    r = vcuda("vm", "free", "--reason", "a test", "--control", control, str(d.pid), str(user))
    check(r.stdout == f"freeing {part['count']}\n", f"{r.stdout}{r.stderr}")
    wait_until(lambda: device_memory(control) == 0, "the memory counts on")
    check(kept(d, control) == [], "it is listed on")
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()


def exports_counted():
    """Memory that only descriptors hold counts as the guest's device memory, until the last one is closed."""
    with tempfile.TemporaryDirectory() as directory:
        control = os.path.join(directory, "control")
        with daemon("--max-device-memory", str(QUOTA), "--control", control) as (d, env):
            p = start(env, "counted")
            check(p.stdout.readline() == "next?\n", "the exporter does not come so far")
            # The exporter's worker may be there for a while, and has been granted more. Never does less count.
            wait_until(lambda: counted(control) == MEMORY, "something else counts")
            go_on(p)
            check(p.stdout.readline() == "next?\n", "the last close")
            wait_until(lambda: device_memory(control) == 0, "the memory counts for ever")
            end(p, "counted")
            wait_until(lambda: not keepers(d), "the keeper outlives what it keeps")
            # A process group that is killed closes its descriptors as well.
            p = start(env, "counted")
            check(p.stdout.readline() == "next?\n", "the exporter does not come so far")
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            wait_until(lambda: device_memory(control) == 0, "a killed process's descriptor holds memory")
            freed(d, env, control)


def exports_limited():
    """A guest that exports more than it may gets an error, and the log names the option."""
    with tempfile.TemporaryDirectory() as directory:
        control = os.path.join(directory, "control")
        with daemon("--max-exports", "20", "--control", control) as (d, env):
            run(env, lambda: None, "limited", "20")
            with open(d.log_path, encoding="utf-8") as f:
                check("(raise --max-exports)" in f.read(), "no line of vcudad names the limit")
            check(used(control, "max-exports")["refused"] > 0, "nothing counts what was refused")


def exports_elsewhere():
    """A descriptor means nothing to another daemon; nor does what it names."""
    with daemon() as (_, env), daemon() as (_, other):
        run(env, lambda: None, "elsewhere", other["VCUDA_SOCKET"])
        p = start(env, "show")
        contents = p.stdout.readline().strip()
        run(other, lambda: None, "forge", contents)
        go_on(p)
        end(p, "show")
