#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of the version finds copies that differ and copies that it does not know: test-check-version.py"""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "scripts/check-version.py"

GOOD = {
    "meson.build": "project('virtio-cuda', 'c',\n  version: '7.8.9',\n  license: 'Apache-2.0')\n",
    "CHANGELOG.md": "# Changes\n\n## 7.8.9\n",
    "doc/howto/kubernetes.md": "    podman build -t REGISTRY/virtio-cuda-node:7.8.9 -f Containerfile .\n",
    "doc/tutorial/first-container.md": "    virtio-cuda  driver 7.8.9  CUDA 13.0\n",
    "integrations/kubernetes/Containerfile": "# podman build -t virtio-cuda-node:7.8.9 .\n",
    "integrations/kubernetes/deploy/base/kustomization.yaml": "images:\n- name: virtio-cuda-node\n  newTag: 7.8.9\n",
    "a/other.c": "/* NCCL 17.8.9, 7.8.90 and 7.8.9.1 are other numbers. */\n",
    "build/made.txt": "7.8.9\n",
}
BAD = [
    ("doc/howto/kubernetes.md", "x\nvirtio-cuda-node:7.8.8 -f\n", "doc/howto/kubernetes.md:2: version 7.8.8, but meson.build has 7.8.9: "),
    ("integrations/kubernetes/deploy/base/kustomization.yaml", "newTag: 7\n", "integrations/kubernetes/deploy/base/kustomization.yaml:1: version 7,"),
    ("doc/tutorial/first-container.md", "nothing\n", "doc/tutorial/first-container.md: the version is expected here"),
    ("a/other.c", "int a;\nconst char *version = \"7.8.9\";\n", "a/other.c:2: a copy of the version: "),
]


def run(root, *options):
    r = subprocess.run([sys.executable, CHECK, "--root", root, *options], capture_output=True, text=True, check=False)
    return r.returncode, r.stdout


def write(root, name, text):
    path = pathlib.Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    with tempfile.TemporaryDirectory() as root:
        for name, text in GOOD.items():
            write(root, name, text)
        assert run(root) == (0, ""), run(root)
        assert run(root, "--print") == (0, "7.8.9\n"), run(root, "--print")
        for name, text, expected in BAD:
            write(root, name, text)
            status, out = run(root)
            assert status == 1 and out.startswith(expected) and out.count("\n") == 1, f"{name}: {text}\n{status} {out}"
            write(root, name, GOOD[name])
        write(root, "meson.build", GOOD["meson.build"].replace("7.8.9", "7.9.0"))
        status, out = run(root)
        assert status == 1 and out.count("\n") == 4, f"{status} {out}"
        assert run(root, "--update") == (0, ""), "not all places are updated"
        assert "virtio-cuda-node:7.9.0 -f" in pathlib.Path(root, "doc/howto/kubernetes.md").read_text(encoding="utf-8")
    print("ok")


main()
