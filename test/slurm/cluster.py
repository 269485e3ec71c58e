# SPDX-License-Identifier: Apache-2.0
"""Slurm in a folder of the test: munged, slurmctld and two slurmds, n1 and n2, on this machine.

All of it runs in namespaces of its own, and its files are in a tmpfs. So ports and /run are the test's alone, there is no
network, and no process and no file is left when the test ends, also when it is killed.
"""

import contextlib
import fcntl
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

LIMIT = 600  # Less than meson's, in meson.build.
ADDRESS = "192.0.2.1"
NODES = ("n1", "n2")
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
SIOCSIFFLAGS, SIOCSIFADDR = 0x8914, 0x8916


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def skip(text):
    print(f"SKIPPED: {text}")
    sys.exit(77)


def wait_for(condition, text):
    """Until the condition holds; its last value. `text`: a text, or a function that makes one."""
    end = time.monotonic() + LIMIT
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"no end of the wait: {text() if callable(text) else text}")
        time.sleep(0.05)


def read(path):
    """The text of a file; an empty one where the file, or its process, has gone."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def enter():
    """Runs this program again in namespaces of its own, or says why it cannot."""
    if os.environ.get("VCUDA_TEST_INSIDE"):
        return
    if os.geteuid() != 0:
        skip("slurmd needs root")
    for program, package in (("slurmctld", "slurmctld"), ("slurmd", "slurmd"), ("srun", "slurm-client"), ("munged", "munge")):
        if not shutil.which(program):
            skip(f"{program} is missing (Debian's package {package})")
    r = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True, text=True, check=False)
    if r.returncode:
        skip(f"namespaces cannot be made here: {r.stderr.strip()}")
    # The shell is the namespace's first process, which takes over and reaps what others leave.
    os.execvpe("unshare", [*NAMESPACES, "sh", "-c", '"$@"; exit $?', "sh", sys.executable, *sys.argv], dict(os.environ, VCUDA_TEST_INSIDE="1"))


def make_private(build):
    """An address that Slurm can listen on, empty folders where the plug-in writes, and the build, wherever it is, where all users can read it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", 1))
        fcntl.ioctl(s, SIOCSIFADDR, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(ADDRESS)))
    for folder in ("/run", "/var/log", "/var/cache"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", folder], check=True)
    os.mkdir("/run/build")
    subprocess.run(["mount", "--bind", build, "/run/build"], check=True)


def document(file):
    """The files of an indented block that begins with "# NAME", by name, in the how-to."""
    files = {}
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", pathlib.Path(file).read_text(encoding="utf-8"), re.MULTILINE):
        lines = [line[4:] for line in block.strip("\n").split("\n")]
        name = None
        for line in lines:
            title = re.fullmatch(r"# (\S+\.conf)\b.*", line)
            if title:
                name = title[1]
                files[name] = []
            elif name and line:
                files[name].append(line)
    return files


class Cluster:
    def __init__(self, top, build, howto):
        self.top, self.build = pathlib.Path(top), pathlib.Path(build)
        self.out = self.top / "out"  # of jobs
        self.out.mkdir()
        self.out.chmod(0o1777)
        self.documented = document(howto)
        self.vcudad_options = self.top / "vcudad.conf"
        self.vcudad = self.top / "vcudad"
        self.slurmds = {}
        self.processes = []
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "VCUDA", "CUDA", "LD_"))}
        self.environment["SLURM_CONF"] = f"{top}/slurm.conf"

    def write(self, name, *lines):
        """As a whole: Slurm may read the file at any time."""
        new = self.top / "new"
        new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        new.rename(self.top / name)

    def configure(self):
        host = socket.gethostname()
        setup = [line for line in self.documented["/etc/slurm/slurm.conf"] if not line.startswith("NodeName")]
        gres = next(re.search(r"Gres=\S+", line)[0] for line in self.documented["/etc/slurm/slurm.conf"] if line.startswith("NodeName"))
        self.write("slurm.conf", "ClusterName=test", f"SlurmctldHost={host}({ADDRESS})", "SlurmUser=root", "SlurmctldPort=7000",
                   f"AuthInfo=socket={self.top}/munge/socket", f"StateSaveLocation={self.top}/state", f"SlurmctldPidFile={self.top}/ctld.pid",
                   f"SlurmdPidFile={self.top}/%n.pid", f"SlurmdLogFile={self.top}/%n.log", f"SlurmctldLogFile={self.top}/ctld.log",
                   f"SlurmdSpoolDir={self.top}/%n", "SlurmdDebug=verbose", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
                   "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU", "SlurmdParameters=config_overrides", "ReturnToService=2",
                   "MpiDefault=none", "KillWait=2", f"PlugStackConfig={self.top}/plugstack.conf", *setup,
                   *(f"NodeName={name} NodeHostname={host} NodeAddr={ADDRESS} Port={7001 + i} CPUs=16 {gres}" for i, name in enumerate(NODES)),
                   "PartitionName=all Nodes=ALL Default=YES")
        self.write("gres.conf", *self.documented["/etc/slurm/gres.conf"])
        # A script, so that a test can hold vcudad back.
        self.write("vcudad", "#!/bin/sh", f"while [ -e {self.top}/hold ]; do sleep 0.05; done", f'exec /run/build/host/daemon/vcudad "$@"')
        self.vcudad.chmod(0o755)
        self.write("vcudad.conf", *self.documented["/etc/vcuda/slurm.conf"], "backend = cpu")
        words = [word for word in self.documented["/etc/slurm/plugstack.conf"][0].split()[2:] if not word.startswith("slice-memory=")]
        self.write("plugstack.conf", " ".join(["required", "/run/build/integrations/slurm/spank_vcuda.so", *words, "slice-memory=64M", "user=nobody",
                                               f"config={self.vcudad_options}", f"vcudad={self.vcudad}", "libraries=/run/build/guest/libcuda"]))
        for name in ("state", *NODES):
            (self.top / name).mkdir()

    def spawn(self, *command, **options):
        with open(self.top / "programs.log", "a", encoding="utf-8") as log:
            p = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, **options)
        self.processes.append(p)
        return p

    def start_munge(self):
        """Under the user of the package: munged refuses to be root's."""
        user = pwd.getpwnam("munge")
        folder = self.top / "munge"
        folder.mkdir(mode=0o755)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        for path in (folder, folder / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        files = [f"--{option}={folder}/{name}" for option, name in
                 (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self.spawn("munged", "--foreground", *files, user=user.pw_uid, group=user.pw_gid, extra_groups=[])
        wait_for((folder / "socket").exists, "munged")

    def start_slurmd(self, node):
        log = self.top / f"{node}.log"

        def starts():
            return read(log).count("slurmd started")
        before = starts()
        p = self.slurmds[node] = self.spawn("slurmd", "-D", "-N", node)
        wait_for(lambda: starts() > before or p.poll() is not None, f"the slurmd of {node}")
        check(starts() > before, f"the slurmd of {node} ends with status {p.returncode}")

    def start(self):
        self.configure()
        self.start_munge()
        self.spawn("slurmctld", "-D")
        for node in NODES:
            self.start_slurmd(node)
        wait_for(lambda: self.states() == ["idle", "idle"], "both nodes are idle")

    def stop(self):
        for p in reversed(self.processes):
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)
        for p in self.processes:
            try:
                p.wait(LIMIT)
            except subprocess.TimeoutExpired:
                p.kill()

    def run(self, *command, user=None, variables=None, status=0):
        """A command's output; `user` names whose it is."""
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        r = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=LIMIT, cwd=self.out,
                           env=dict(self.environment, **variables or {}), **who)
        check(status is None or bool(r.returncode) == bool(status), f"{command}: status {r.returncode}: {r.stdout}{r.stderr}")
        return r.stdout + r.stderr

    def begin(self, *command, user, variables=None):
        """A job that goes on."""
        return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, cwd=self.out, env=dict(self.environment, **variables or {}), user=user.pw_uid, group=user.pw_gid, extra_groups=[])

    def states(self):
        return self.run("sinfo", "-h", "-N", "-o", "%T", status=None).split()

    def job(self, number, field):
        """A field of `scontrol show job`, or an empty text."""
        found = re.search(rf"\b{field}=(\S+)", self.run("scontrol", "-o", "show", "job", number, status=None))
        return found[1] if found else ""

    def devices(self, node):
        """Slices in use of each device, as the plug-in's files say, and the jobs' vcudads."""
        use, daemons = {}, {}
        for file in pathlib.Path("/run/vcuda/slurm", node).glob("*.job"):
            found = re.fullmatch(r"device (\d+) slices (\d+) of \d+ slice-memory \d+ reserved \d+ pid (\d+) started \d+\n", read(file))
            if found:
                device, slices, pid = map(int, found.groups())
                use[device] = use.get(device, 0) + slices
                daemons[int(file.stem)] = pid
        return use, daemons

    def logs(self):
        texts = []
        for file in sorted(self.top.glob("*.log")) + sorted(pathlib.Path("/var/log/vcuda").glob("*")):
            texts.append(f"== {file.name}\n" + "\n".join(read(file).split("\n")[-40:]))
        return "\n".join(texts)


@contextlib.contextmanager
def cluster(build, howto):
    make_private(build)
    top = "/run/slurm-test"
    os.mkdir(top, 0o755)
    c = Cluster(top, build, howto)
    try:
        c.start()
        yield c
    except BaseException:
        print(c.logs(), flush=True)
        raise
    finally:
        c.stop()
