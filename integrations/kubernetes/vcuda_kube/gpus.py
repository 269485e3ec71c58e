# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this node, as a vcudad that runs for a moment lists them."""

import dataclasses
import subprocess
import tempfile

from .daemon import Daemon, Failure, stop

FIELDS = "index,uuid,memory.total,name,driver_version"
LIMIT_S = 60


@dataclasses.dataclass(frozen=True)
class Gpu:
    index: int
    uuid: str
    memory_mib: int
    product: str
    driver: str

    @property
    def name(self):
        """A DNS label, as DRA names devices."""
        return f"gpu-{self.index}"


def parse(text):
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 5 or not fields[0].isdigit() or not fields[2].isdigit():
            raise Failure(f"`vcuda smi` describes a GPU as {line!r}")
        gpus.append(Gpu(int(fields[0]), fields[1], int(fields[2]), fields[3], fields[4]))
    return gpus


def probe(settings):
    """All GPUs that a vcudad has here. Raises Failure."""
    with tempfile.TemporaryDirectory(prefix="probe", dir=settings.run) as folder:
        socket = f"{folder}/socket"
        daemon = Daemon(settings, "probe", ["--socket", socket, "--control", "none"], {})
        try:
            answer = subprocess.run([settings.vcuda, "smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"], capture_output=True,
                                    text=True, check=False, timeout=LIMIT_S, env=settings.environment(VCUDA_SOCKET=socket, VCUDA_TRANSPORT="local"))
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"the GPUs cannot be listed: {error}") from error
        finally:
            stop([daemon])
    if answer.returncode != 0:
        raise Failure(f"the GPUs cannot be listed: {answer.stdout}{answer.stderr}".strip())
    return parse(answer.stdout)
