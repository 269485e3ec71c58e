#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda vm run` shares this machine's files and cannot write to them: test-share.py VCUDA REFUSED SCENARIO

No VM is started: a script takes the place of virtiofsd, tries what it must not be able to do, and ends.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

VCUDA, REFUSED = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SUBJECT = "read-only sharing of files"
KERNELS = ("/proc/version", "/sys/devices/system/cpu/online")
ROOT = os.geteuid() == 0

# A virtiofsd that has the rights which vcuda gives, and counts excess rights. The real virtiofsd's descriptor of
# /proc/self/fd leads out of its chroot.
VIRTIOFSD = r"""#!/bin/sh
while [ $# -gt 1 ]; do
	case $1 in
	--shared-dir) shared=${2%/} ;;
	--socket-path) socket=$2 ;;
	--sandbox) echo "sandbox $2" ;;
	esac
	shift
done
try() {
	name=$1
	shift
	if said=$("$@" 2>&1); then echo "$name possible"; else echo "$name refused"; fi
}
there=$shared$CANARY
if [ -n "$RW" ]; then
	case $shared in
	*"$RW") there=$shared ;;
	# The server of all files comes first.
	*) exec python3 -S -E -c 'import socket, sys, time; socket.socket(socket.AF_UNIX).bind(sys.argv[1]); time.sleep(600)' "$socket" ;;
	esac
fi
try read grep -q known "$there/known"
try list ls "$there"
try create sh -c ": >'$there/new'"
try write sh -c "echo >>'$there/known'"
try mkdir mkdir "$there/folder"
try link ln -s x "$there/link"
try move mv "$there/known" "$there/moved"
try remove rm -f "$there/known"
try beside sh -c ": >'$there/../canary/new'"
try proc cat "$shared/proc/version"
try sys cat "$shared/sys/devices/system/cpu/online"
try outside sh -c ": >'$CANARY/new'"
try relative sh -c ": >new"
try inherited sh -c ": >/proc/self/fd/$DESCRIPTOR/new"
exec 5</proc/self/fd
try descriptor sh -c ": >'/proc/self/fd/5/../../..$CANARY/new'"
try sysoutside cat /sys/devices/system/cpu/online
try devoutside sh -c ": </dev/zero"
try pid sh -c ": >'$socket.pid'"
exit 3
"""


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(how, *arguments, **env):
    """In the situation of refused.c; none if `how` is empty."""
    return call(how, VCUDA, *arguments, **env)


def call(how, *arguments, **env):
    """The current folder is CANARY, if it is given, and DESCRIPTOR is an open descriptor of it."""
    canary = os.open(env.get("CANARY", "."), os.O_PATH)
    env = dict(os.environ, DESCRIPTOR=str(canary), **env)
    line = [*([REFUSED, how] if how else []), *arguments]
    r = subprocess.run(line, capture_output=True, text=True, check=False, env=env, cwd=env.get("CANARY"), pass_fds=[canary])
    os.close(canary)
    if r.returncode == 77:
        print(f"skipped: {r.stderr}")
        sys.exit(77)
    return r


def said_by_doctor(how):
    """The sentence and the remedy, both None where the files can be shared."""
    r = run(how, "doctor")
    check(r.returncode in (0, 1), f"{how}: doctor ended with {r.returncode}: {r.stderr}")
    missing = re.search(rf"^missing {SUBJECT}: (.*)\n {{8}}(.*)$", r.stdout, re.M)
    if missing:
        check(r.returncode == 1 and "`vcuda vm run` cannot work yet" in r.stdout, f"{how}: {r.stdout}")
        return missing.groups()
    check(re.search(rf"^ok +{SUBJECT}: ", r.stdout, re.M), f"{how}: not a word on {SUBJECT}:\n{r.stdout}")
    return None, None


def expect_refusal(how, sentence, mends):
    """The command and the doctor say the same."""
    what, mend = said_by_doctor(how)
    check(what and re.search(sentence, what), f"{how}: the doctor says {what!r}, not {sentence!r}")
    for word in mends:
        check(word in mend, f"{how}: {mend!r} lacks {word!r}")
    for word in ("sysctl", "sudo", "--privileged", "--share"):
        check(word not in mend or word in " ".join(mends), f"{how}: {word!r} does not fit: {mend!r}")
    # Nothing is looked for or downloaded before.
    r = run(how, "vm", "run", "--", "true", VCUDA_SCRIPTS="/dev/null/none")
    check(r.returncode == 125, f"{how}: vm run ended with {r.returncode}: {r.stderr}")
    check(r.stderr == f"vcuda: this machine's files cannot be shared read-only: {what}. {mend}\n", f"{how}: vm run says {r.stderr!r}")


def refused():
    unprivileged = ["--share unprivileged"] if landlock() else []
    expect_refusal("limit", "refuses this user a user namespace .unshare.: No space left",
                   ["sysctl user.max_user_namespaces=", "sudo vcuda", *unprivileged])
    expect_refusal("root", "root has no CAP_SYS_ADMIN", ["sysctl user.max_user_namespaces=", "--privileged", *unprivileged])
    expect_refusal("chroot", "user namespaces in a chroot .unshare.: Operation not permitted", ["sudo vcuda", *unprivileged])
    expect_refusal("filter", "refuses root a mount namespace" if ROOT else "refuses this user a user namespace", ["--privileged", *unprivileged])
    expect_refusal("landlock", "refuses this user a user namespace", ["sysctl user.max_user_namespaces="])
    r = run("landlock", "vm", "run", "--share", "unprivileged", "--", "true")
    check(r.returncode == 125 and "Landlock" in r.stderr, f"without Landlock: {r.returncode}: {r.stderr}")
    r = run("", "vm", "run", "--share", "all", "--", "true")
    check(r.returncode == 125 and "--share: 'all' is not possible" in r.stderr, f"--share all: {r.returncode}: {r.stderr}")


def landlock():
    """Whether the kernel has it, in a process that may have anything."""
    r = run("limit", "vm", "run", "--share", "unprivileged", "--", "true", VCUDA_SCRIPTS="/dev/null/none")
    return "Landlock" not in r.stderr


def attempts(top, how, *options, rw=False):
    """The actions that the script tried, each with its outcome; with `rw` that of the folder of --rw."""
    canary, folder = pathlib.Path(top, "canary"), pathlib.Path(top, "folder")
    for path in (canary, folder):
        path.mkdir(exist_ok=True)
        path.joinpath("known").write_text("known\n")
    if rw:
        options = [*options, "--rw", str(folder)]
    parts = pathlib.Path(top, "parts")
    if not parts.exists():
        parts.mkdir()
        for name, text in (("get-qemu.sh", f"echo {parts}"), ("get-kernel.sh", f"echo {parts}"), ("build-initramfs.sh", f"echo {parts}/kernel"),
                           ("virtiofsd", VIRTIOFSD[10:]), ("qemu-system-x86_64", "exit 1"), ("kernel", "")):
            path = parts / name
            path.write_text("#!/bin/sh\n" + text + "\n")
            path.chmod(0o755)
    r = run(how, "vm", "run", "--backend", "none", *options, "--", "true", VCUDA_SCRIPTS=str(parts), CANARY=str(canary), TMPDIR="/tmp",
            RW=str(folder) if rw else "")
    process = "virtiofsd-0" if rw else "virtiofsd"
    check(r.returncode == 125 and f"{process} did not start: exit status 3" in r.stderr, f"{how}: {r.returncode}: {r.stderr}")
    left = sorted(p.name for p in canary.iterdir())
    check(left == ["known"] and canary.joinpath("known").read_text() == "known\n", f"{how}: the host's files changed: {left}")
    return dict(line.split() for line in re.findall(r"^  (\w+ \w+)$", r.stderr, re.M))


CHANGES = ("create", "write", "mkdir", "link", "move", "remove")
FORBIDDEN = ("beside", "proc", "sys", "outside", "relative", "inherited", "descriptor", "sysoutside", "devoutside")


def confined(how, sandbox, *options):
    check(all(os.access(p, os.R_OK) for p in KERNELS), "the kernel's files are readable to none here")
    for rw in (False, True):
        with tempfile.TemporaryDirectory() as top:
            could = attempts(top, how, *options, rw=rw)
        expected = {"sandbox": sandbox, "read": "possible", "list": "possible", "pid": "possible"} | {name: "refused" for name in FORBIDDEN}
        expected |= {name: "possible" if rw else "refused" for name in CHANGES}
        check(could == expected, f"{how} {options}, --rw {rw}: {could}")


def view():
    """A view of its own wherever the kernel allows one, with virtiofsd's stronger sandbox where that works."""
    for how, sandbox in (("root-limited", "namespace"), ("chroot-root", "namespace"), ("capability", "chroot")):
        check(said_by_doctor(how)[0] is None, f"{how}: the doctor says {said_by_doctor(how)[0]}")
        confined(how, sandbox)
    # No mount of the view reaches the namespace of the chroot.
    with tempfile.TemporaryDirectory() as top:
        attempts(top, "chroot-root")
        r = call("chroot-root", "sh", "-c", '"$0" vm run --backend none -- true; cat /proc/self/mountinfo', VCUDA,
                 VCUDA_SCRIPTS=f"{top}/parts", CANARY=f"{top}/canary", TMPDIR="/tmp")
        check("virtiofsd did not start: exit status 3" in r.stderr and " shared:" in r.stdout, f"{r.stderr}{r.stdout}")
        check("vcuda-vm-" not in r.stdout, f"mounts are left:\n{r.stdout}")


def interrupted():
    """A signal that comes while the view is tried leaves nothing behind."""
    ends = set()
    for _ in range(20):
        # Socket paths are short.
        with tempfile.TemporaryDirectory(dir="/tmp") as top:
            with subprocess.Popen([VCUDA, "vm", "run", "--", "true"], env=dict(os.environ, VCUDA_SCRIPTS="/dev/null/none", TMPDIR=top),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as vm:
                while not os.listdir(top) and vm.poll() is None:
                    pass
                vm.send_signal(signal.SIGTERM)
            ends.add(vm.returncode)
            check(not os.listdir(top), f"{os.listdir(top)} is left, end {vm.returncode}")
    check(ends <= {-signal.SIGTERM, 125}, f"ended with {ends}")


def unprivileged():
    """Landlock takes the view's place, for users and for root."""
    if not landlock():
        print("skipped: the kernel has no Landlock")
        sys.exit(77)
    for how in ("limit", "root", "chroot", "filter", ""):
        confined(how, "none", "--share", "unprivileged")


globals()[sys.argv[3]]()
