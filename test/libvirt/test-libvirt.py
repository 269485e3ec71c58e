#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda vm xml` and the hook for libvirt: test-libvirt.py BUILD_ROOT SCENARIO"""

import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

BUILD = pathlib.Path(sys.argv[1])
VCUDA = BUILD / "cli/vcuda"
HOOK = BUILD / "packaging/libvirt-hook"
KUBEVIRT_HOOK = pathlib.Path(__file__).resolve().parents[2] / "integrations/kubevirt/onDefineDomain"
QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=600, **options)


def xml(*args, status=0):
    r = run(VCUDA, "vm", "xml", *args)
    check(r.returncode == status, f"vm xml {args}: {r.returncode}: {r.stdout}{r.stderr}")
    return r.stdout if status == 0 else r.stderr


def check_domain(text, path):
    """The domain has the device on a port of its own, and memory that the daemon can map."""
    domain = tree.fromstring(text)
    check(domain.find("memoryBacking/source").get("type") == "memfd" and domain.find("memoryBacking/access").get("mode") == "shared", text)
    args = [arg.get("value") for arg in domain.findall(f"{QEMU}commandline/{QEMU}arg")]
    check(args[0::2] == ["-chardev", "-device", "-device"], args)
    chardev, port, device = args[1::2]
    check(chardev == f"socket,id=vcuda,path={path}", chardev)
    check(port.startswith("pcie-root-port,id=vcuda-port,") and ",bus=vcuda-port," in device and device.endswith(",chardev=vcuda"), args)
    return domain


def accepts(folder, text):
    """libvirt takes the domain, where its tools are."""
    file = pathlib.Path(folder, "domain.xml")
    file.write_text(text)
    if shutil.which("virt-xml-validate"):
        r = run("virt-xml-validate", file, "domain")
        check(r.returncode == 0, f"virt-xml-validate: {r.stdout}{r.stderr}")
    else:
        print("virt-xml-validate is missing (Debian's package libvirt-clients): only the form was checked")
    # The driver `test` has another type of domain.
    if shutil.which("virsh"):
        file.write_text(re.sub("<domain type='[a-z]*'", "<domain type='test'", text))
        r = run("virsh", "-c", "test:///default", "define", file)
        check(r.returncode == 0, f"virsh define: {r.stdout}{r.stderr}")


def documents():
    with tempfile.TemporaryDirectory(prefix="v") as top:
        raw, qcow2 = f"{top}/a 'disk' & more.raw", f"{top}/b.img"
        pathlib.Path(raw).write_bytes(bytes(1024))
        pathlib.Path(qcow2).write_bytes(b"QFI\xfb" + bytes(1020))
        text = xml("--image", raw, "--memory", "3G", "--cpus", "5", "--type", "qemu", "vm-1")
        domain = check_domain(text, "/run/vcuda/vm-1.sock")
        check(domain.get("type") == "qemu" and domain.findtext("name") == "vm-1" and domain.findtext("vcpu") == "5", text)
        check(domain.findtext("memory") == "3072" and domain.find("memory").get("unit") == "MiB", text)
        disk = domain.find("devices/disk")
        check(disk.find("source").get("file") == raw and disk.find("driver").get("type") == "raw", text)
        accepts(top, text)
        text = xml("--image", qcow2, "--type", "kvm", "--emulator", "/opt/qemu", "--socket", "/run/a&b.sock", "b")
        domain = check_domain(text, "/run/a&b.sock")
        check(domain.get("type") == "kvm" and domain.findtext("devices/emulator") == "/opt/qemu", text)
        check(domain.find("devices/disk/driver").get("type") == "qcow2", text)
        accepts(top, text)
        # The elements alone make any other domain one with the device.
        elements = xml("plain")
        text = ("<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>plain</name><memory>1048576</memory>"
                f"<os><type arch='x86_64' machine='q35'>hvm</type></os>{elements}</domain>")
        check_domain(text, "/run/vcuda/plain.sock")
        accepts(top, text)
        for expected, *args in (("domain's name", "a/b"), ("domain's name", "-"), ("domain's name", ""),
                                ("domain's name", "x" * 64), ("--memory: '7'", "--memory", "7", "a"),
                                ("--cpus: '0'", "--cpus", "0", "a"), ("--type: 'xen'", "--type", "xen", "a"), ("--socket: 'a,b'", "--socket", "a,b", "a"),
                                ("nosuch': No such file", "--image", f"{top}/nosuch", "a"), ("no option", "--nope", "a"), ("usage:", "a", "b"), ("usage:",)):
            said = xml(*args, status=125)
            check(expected in said, f"{args}: {said}")


class Hook:
    """The hook, as libvirt calls it."""

    def __init__(self, top, manager, **variables):
        self.folder = pathlib.Path(top, "run")
        self.config = pathlib.Path(top, "config")
        self.config.mkdir()
        self.environment = dict(os.environ, VCUDA_RUN=str(self.folder), VCUDA_CONFIG=str(self.config), VCUDA_MANAGER=manager,
                                VCUDAD=str(BUILD / "host/daemon/vcudad"), VCUDA_QEMU_USER=str(os.geteuid()), VCUDA_CONTROL=f"{top}/control",
                                **variables)

    def call(self, name, operation, path, status=0):
        text = re.sub("<!--.*-->", "", xml("--socket", path, name))
        document = f"<domain type='qemu' xmlns:qemu='{QEMU[1:-1]}'><name>{name}</name>{text}</domain>"
        if operation == "release":
            document = document.replace("'", '"')  # libvirt itself writes either
        r = run(HOOK, name, operation, "begin", "-", input=document, env=self.environment)
        check(r.returncode == status, f"{name} {operation}: {r.returncode}: {r.stdout}{r.stderr}")
        return r

    def daemons(self):
        return [process for process in run("pgrep", "-f", f"vhost-socket {self.folder.parent}/").stdout.split()]


def alone():
    """Without systemd: the daemon is there for the domain, with its options, and gone after it."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        hook = Hook(top, "none")
        path = f"{hook.folder}/vm1.sock"
        (hook.config / "vm1.conf").write_text("# of a VM\nbackend = cpu\nmax-contexts = 7\nworker-user = none\n")
        hook.call("vm1", "prepare", path)
        try:
            check(stat.S_ISSOCK(os.stat(path).st_mode), f"{path} is no socket")
            with socket.socket(socket.AF_UNIX) as qemu:
                qemu.connect(path)
            check(len(hook.daemons()) == 1, hook.daemons())
            options = pathlib.Path(f"/proc/{hook.daemons()[0]}/cmdline").read_bytes().split(b"\0")
            check(options[options.index(b"--config") + 1] == f"-{hook.config}/vm1.conf".encode(), options)
            check(options[options.index(b"--name") + 1] == b"vm1", options)
            for operation in ("start", "started", "stopped"):
                hook.call("vm1", operation, path)
            check(len(hook.daemons()) == 1, f"other operations change the daemon: {hook.daemons()}")
        finally:
            hook.call("vm1", "release", path)
        for _ in range(600):
            if not hook.daemons():
                break
            subprocess.run(["sleep", "0.1"], check=True)
        check(not hook.daemons(), f"a daemon stays: {hook.daemons()}")
        hook.call("vm1", "release", path)
        # Other domains, and sockets of other folders, are not the hook's.
        hook.call("vm2", "prepare", f"{top}/other/vm2.sock")
        check(not pathlib.Path(top, "other").exists(), "a socket of another folder")
        r = run(HOOK, "vm3", "prepare", "begin", "-", input="<domain type='qemu'><name>vm3</name></domain>", env=hook.environment)
        check(r.returncode == 0 and not hook.daemons(), f"{r.stdout}{r.stderr} {hook.daemons()}")
        # A domain does not start without its daemon, and libvirt's log says why.
        (hook.config / "vm4.conf").write_text("nonsense = 1\n")
        r = hook.call("vm4", "prepare", f"{hook.folder}/vm4.sock", status=1)
        check("vm4: vcudad does not start" in r.stderr and "nonsense" in r.stderr, r.stderr)


def units():
    """With systemd: the units of the domain are started and stopped."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        fake = pathlib.Path(top, "systemctl")
        fake.write_text(f'#!/bin/sh\necho "$@" >>{top}/calls\nmkdir -p {top}/run\ntouch {top}/run/vm1.sock\n')
        fake.chmod(0o755)
        hook = Hook(top, "systemd", PATH=f"{top}:{os.environ['PATH']}")
        hook.call("vm1", "prepare", f"{hook.folder}/vm1.sock")
        hook.call("vm1", "release", f"{hook.folder}/vm1.sock")
        calls = pathlib.Path(top, "calls").read_text()
        check(calls == "start vcudad@vm1.socket\nstop vcudad@vm1.socket vcudad@vm1.service\n", calls)
        fake.write_text("#!/bin/sh\nexit 1\n")
        r = hook.call("vm1", "prepare", f"{hook.folder}/vm1.sock", status=1)
        check("vcudad@vm1.socket does not start" in r.stderr, r.stderr)


# As KubeVirt's virt-launcher marshals it.
KUBEVIRT_DOMAIN = """<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
	<name>default_vm-1</name>
	<memory unit="b">1073741824</memory>
	<os><type arch="x86_64" machine="pc-q35-rhel9.6.0">hvm</type><smbios mode="sysinfo"></smbios></os>
	<metadata><kubevirt xmlns="http://kubevirt.io"><uid>b7b2</uid><graceperiod><deletionGracePeriodSeconds>5</deletionGracePeriodSeconds></graceperiod></kubevirt></metadata>
	<features><acpi></acpi></features>
	<cpu mode="host-model"><topology sockets="1" cores="2" threads="1"></topology></cpu>
	<vcpu placement="static">2</vcpu>
	<devices><emulator>/usr/libexec/qemu-kvm</emulator><console type="pty"></console></devices>
</domain>"""


def kubevirt():
    """The hook of KubeVirt's sidecar adds the device of `vcuda vm xml`, and leaves the rest as it is."""
    def hook(text, vmi='{"metadata": {"name": "vm-1"}}', status=0):
        r = run(KUBEVIRT_HOOK, "--vmi", vmi, "--domain", text)
        check(r.returncode == status, f"{vmi}: {r.returncode}: {r.stdout}{r.stderr}")
        return r.stdout if status == 0 else r.stderr

    def changed(before, after):
        check(before in KUBEVIRT_DOMAIN, before)
        return KUBEVIRT_DOMAIN.replace(before, after)

    def arguments(domain):
        return [arg.get("value") for arg in domain.findall(f"{QEMU}commandline/{QEMU}arg")]

    with tempfile.TemporaryDirectory(prefix="v") as top:
        text = hook(KUBEVIRT_DOMAIN)
        domain = check_domain(text, "/run/vcuda/vhost.sock")
        elements = f"<d xmlns:qemu='{QEMU[1:-1]}'>{xml('--socket', '/run/vcuda/vhost.sock', 'x')}</d>"
        check(arguments(domain) == arguments(tree.fromstring(elements)), f"not as `vcuda vm xml`: {text}")
        accepts(top, text)
        # The rest is as it was, and a second call changes nothing.
        for element in [domain.find("memoryBacking"), domain.find(f"{QEMU}commandline")]:
            domain.remove(element)
        same = [tree.canonicalize(part, strip_text=True, rewrite_prefixes=True) for part in (tree.tostring(domain), KUBEVIRT_DOMAIN)]
        check(same[0] == same[1], same)
        check('<kubevirt xmlns="http://kubevirt.io">' in text and hook(text).strip() == text.strip(), text)
        # Another socket; arguments and memory that are there already.
        vmi = '{"metadata": {"annotations": {"virtio-cuda/socket": "/var/run/a&b/x.sock"}}}'
        text = hook(changed("</domain>", '<memoryBacking><hugepages/><source type="memfd"/></memoryBacking>'
                            '<qemu:commandline><qemu:arg value="-msg"/><qemu:arg value="timestamp=on"/><qemu:env name="A" value="b"/></qemu:commandline></domain>'), vmi)
        domain = tree.fromstring(text)
        check(arguments(domain)[:2] == ["-msg", "timestamp=on"] and "socket,id=vcuda,path=/var/run/a&b/x.sock" in arguments(domain), text)
        check(domain.find("memoryBacking/hugepages") is not None and domain.find("memoryBacking/access").get("mode") == "shared", text)
        accepts(top, text)
        # Another prefix of the namespace, and none.
        check_domain(hook(changed("xmlns:qemu", "xmlns:q")), "/run/vcuda/vhost.sock")
        text = hook(changed(' xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"', ""))
        check_domain(text, "/run/vcuda/vhost.sock")
        accepts(top, text)
    for expected, text, vmi in (
            ("needs x86_64 and q35", changed("pc-q35-rhel9.6.0", "pc-i440fx-9.2"), "{}"), ("needs x86_64 and q35", changed("x86_64", "aarch64"), "{}"),
            ("access mode='private'", changed("<vcpu", "<memoryBacking><access mode='private'/></memoryBacking><vcpu"), "{}"),
            ("source type='anonymous'", changed("<vcpu", "<memoryBacking><source type='anonymous'/></memoryBacking><vcpu"), "{}"),
            ("memAccess='private'", changed("<topology", "<numa><cell id='0' cpus='0' memory='1' memAccess='private'/></numa><topology"), "{}"),
            ("--domain is no XML", "<domain>", "{}"), ("--domain is a <network>", "<network/>", "{}"),
            ("no VirtualMachineInstance", KUBEVIRT_DOMAIN, "[]"), ("no VirtualMachineInstance", KUBEVIRT_DOMAIN, "{"),
            ("without a comma, not '/a,b'", KUBEVIRT_DOMAIN, '{"metadata": {"annotations": {"virtio-cuda/socket": "/a,b"}}}'),
            ("absolute path", KUBEVIRT_DOMAIN, '{"metadata": {"annotations": {"virtio-cuda/socket": "x"}}}'),
            ("absolute path", KUBEVIRT_DOMAIN, '{"metadata": {"annotations": {"virtio-cuda/socket": 3}}}')):
        said = hook(text, vmi, status=1)
        check(expected in said and said.startswith("virtio-cuda: "), f"{expected}: {said}")


globals()[sys.argv[2]]()
