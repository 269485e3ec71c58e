# SPDX-License-Identifier: Apache-2.0
"""Units: a vcudad with quotas, its folder on the node, and the CDI file that gives a container the folder.

A container has the folder and not the socket: a vcudad that starts again makes a new socket there. A file of state names all
units, so that they are there again after a restart of this program.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from .daemon import Daemon, Failure, log, stop

KIND = "virtio-cuda/gpu"
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
STATE_VERSION = 1
LIMIT_S = 120
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1, 60


@dataclasses.dataclass
class Unit:
    """A vcudad as the file of state describes it. `owner` is the plug-in's own."""

    name: str
    uuids: list
    memory_mib: int
    share: int
    quotas: dict
    owner: dict


def write_file(path, text):
    """As a whole, and on the disk, or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def end_leftovers(folder):
    """Ends vcudads of this folder that an earlier run of this program has left, which was killed."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path("/proc", process, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        paths = [words[i + 1] for i, word in enumerate(words[:-1]) if word in (b"--socket", b"--vhost-socket")]
        if any(path.startswith(os.fsencode(f"{folder}/")) for path in paths):
            found.append(int(process))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in found:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass
        end = time.monotonic() + 10
        while found and time.monotonic() < end:
            found = [process for process in found if os.path.exists(f"/proc/{process}")]
            time.sleep(0.05)


class Units:
    """All units of a plug-in. Each method may be called by any thread."""

    def __init__(self, settings, changed):
        """`changed` is called, without a lock, after a unit has ended or is there again."""
        self.settings = settings
        self.changed = changed
        self.lock = threading.RLock()
        self.units, self.daemons, self.retry = {}, {}, {}
        self.run = pathlib.Path(settings.run)
        self.cdi = pathlib.Path(settings.cdi)
        self.state = pathlib.Path(settings.state, "units.json")
        for folder, mode in ((self.run, 0o700), (self.state.parent, 0o700), (self.cdi, 0o755)):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)

    # ---- the file of state ----

    def load(self):
        """Starts what the file names; a unit that does not start is tried again by watch()."""
        with self.lock:
            self.units = self._read()
            end_leftovers(self.run)
            for path in [*self.run.iterdir(), *self.cdi.glob(f"virtio-cuda-{self.settings.kind}-*.json")]:
                if path.name not in self.units and path.name not in map(self._cdi_name, self.units):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            for unit in self.units.values():
                try:
                    self._start(unit)
                except (Failure, OSError) as error:
                    self._failed(unit, str(error))

    def _read(self):
        try:
            kept = json.loads(self.state.read_text())
            if kept["version"] != STATE_VERSION:
                raise ValueError(f"version {kept['version']}")
            return {fields["name"]: Unit(**fields) for fields in kept["units"]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Failure(f"{self.state} cannot be used ({error}). Delete it, and the pods of this node that have a virtual GPU") from error

    def _write(self):
        units = [dataclasses.asdict(unit) for unit in self.units.values()]
        write_file(self.state, json.dumps({"version": STATE_VERSION, "units": units}, indent=1) + "\n")

    # ---- one unit ----

    def find(self, name):
        with self.lock:
            return self.units.get(name)

    def all(self):
        with self.lock:
            return list(self.units.values())

    def failing(self):
        """Names of the units without a vcudad."""
        with self.lock:
            return {name for name in self.units if name not in self.daemons or self.daemons[name].poll() is not None}

    def ensure(self, unit):
        """The CDI name of the unit, which listens. A unit of this name that is there already is left as it is. Raises Failure."""
        if not NAME.fullmatch(unit.name):
            raise Failure(f"{unit.name!r} cannot be the name of a file")
        with self.lock:
            there = unit.name in self.units
            unit = self.units.setdefault(unit.name, unit)
            try:
                if not there:
                    self._write()
                if unit.name in self.failing():
                    self._start(unit)
                elif not self._cdi_file(unit).exists():
                    self._describe(unit)
            except (Failure, OSError) as error:
                if not there:
                    self.remove(unit.name)
                raise Failure(str(error)) from error
        return f"{KIND}={unit.name}"

    def remove(self, name):
        """Ends the unit and what it has on the node, if it is there."""
        if not NAME.fullmatch(name):
            return
        with self.lock:
            daemon = self.daemons.pop(name, None)
            if daemon:
                stop([daemon])
            self.cdi.joinpath(self._cdi_name(name)).unlink(missing_ok=True)
            shutil.rmtree(self.run / name, ignore_errors=True)
            self.retry.pop(name, None)
            if self.units.pop(name, None):
                self._write()

    def _socket(self, unit):
        return self.run / unit.name / ("vhost.sock" if self.settings.vm else "socket")

    def _start(self, unit):
        daemon = self.daemons.pop(unit.name, None)
        if daemon:
            stop([daemon])
        path = self._socket(unit)
        path.parent.mkdir(mode=0o755, exist_ok=True)
        if len(os.fsencode(path)) > 100:
            raise Failure(f"{path} is too long for a socket; choose a shorter --run")
        arguments = ["--name", unit.name, "--vhost-socket" if self.settings.vm else "--socket", str(path), "--socket-mode", "0666",
                     "--max-device-memory", f"{unit.memory_mib}M", "--share", str(unit.share)]
        if not self.settings.vm:
            arguments.append("--allow-any-user")
        for name, value in unit.quotas.items():
            arguments += [f"--{name}", str(value)]
        daemon = Daemon(self.settings, unit.name, arguments, {"CUDA_VISIBLE_DEVICES": ",".join(unit.uuids)})
        try:
            self._describe(unit)
        except BaseException:
            stop([daemon])
            raise
        self.daemons[unit.name] = daemon
        self.retry.pop(unit.name, None)
        log(f"{unit.name} has {unit.memory_mib} MiB and share {unit.share} of {', '.join(unit.uuids)}")

    # ---- the CDI file ----

    def _cdi_name(self, name):
        return f"virtio-cuda-{name}.json"

    def _cdi_file(self, unit):
        return self.cdi / self._cdi_name(unit.name)

    def _describe(self, unit):
        """Writes the CDI file of a unit that listens."""
        mount = {"hostPath": str(self.run / unit.name), "containerPath": "/run/vcuda", "options": ["ro", "nosuid", "nodev", "bind"]}
        if self.settings.vm:
            specification, edits = {"cdiVersion": "0.5.0", "kind": KIND}, {"mounts": [mount]}
        else:
            # With a GPU vcudad has no other devices. The software GPU does not know the variable there, but in the container.
            specification, edits = self._generate(unit), {"env": [f"CUDA_VISIBLE_DEVICES={','.join(unit.uuids)}"], "mounts": [mount]}
        specification["devices"] = [{"name": unit.name, "containerEdits": edits}]
        write_file(self._cdi_file(unit), json.dumps(specification, indent=1) + "\n")

    def _generate(self, unit):
        """The specification of `vcuda cdi generate`, which asks the vcudad for its devices."""
        command = [self.settings.vcuda, "cdi", "generate", "--socket", str(self._socket(unit))]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S, env=self.settings.environment())
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"`vcuda cdi generate` fails: {error}") from error
        if answer.returncode != 0:
            raise Failure(f"`vcuda cdi generate` fails: {answer.stderr.strip()}")
        return json.loads(answer.stdout)

    # ---- vcudads that end ----

    def _failed(self, unit, words):
        pause = min(2 * self.retry.get(unit.name, (0, FIRST_PAUSE_S / 2))[1], LONGEST_PAUSE_S)
        self.retry[unit.name] = (time.monotonic() + pause, pause)
        log(f"{unit.name} has no vcudad, and gets another one in {pause} s: {words}")

    def watch(self):
        """Called about once a second: starts a vcudad again that has ended."""
        changes = False
        with self.lock:
            for name in self.failing():
                unit = self.units[name]
                if name not in self.retry:
                    changes = True
                    self._failed(unit, "it has ended " + " ".join(self.daemons[name].last if name in self.daemons else []))
                elif time.monotonic() >= self.retry[name][0]:
                    try:
                        self._start(unit)
                        changes = True
                    except (Failure, OSError) as error:
                        self._failed(unit, str(error))
        if changes:
            self.changed()

    def stop(self):
        """Ends all vcudads. The state and the CDI files stay for the next run."""
        with self.lock:
            stop(self.daemons.values())
            self.daemons.clear()
