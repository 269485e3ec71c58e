# SPDX-License-Identifier: Apache-2.0
"""Units: a vcudad with quotas, its folder on the node, and the CDI file that gives a container the folder.

A container has the folder and not the socket: a vcudad that starts again makes a new socket there. A file of state names all
units, so that they are there again after a restart of this program.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from .daemon import Daemon, Failure, log, stop
from .groups import Groups

KIND = "virtio-cuda/gpu"
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
STATE_VERSION = 1
LIMIT_S = 60
PARALLEL_STARTS = 8
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1, 60


@dataclasses.dataclass(eq=False)
class Unit:
    """A vcudad as the file of state describes it. `owner` is the plug-in's own.

    `lock` is held while the vcudad starts or ends, and guards the members below it. It is taken before the lock of Units.
    """

    name: str
    uuids: list
    memory_mib: int
    share: int
    quotas: dict
    owner: dict

    def __post_init__(self):
        self.lock = threading.Lock()
        self.daemon = None
        self.retry = None  # time of the next start and the pause before it, after a failure
        self.over = False  # no longer in the file of state

    def listens(self):
        daemon = self.daemon
        return daemon is not None and daemon.poll() is None


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


def leftover(process, folder):
    """A descriptor of the process if it is a vcudad with a socket in this folder, else None."""
    try:
        descriptor = os.pidfd_open(int(process))
    except OSError:
        return None
    try:
        words = pathlib.Path("/proc", process, "cmdline").read_bytes().split(b"\0")
        program = os.path.basename(os.readlink(f"/proc/{process}/exe")).removesuffix(" (deleted)")
        paths = [words[i + 1] for i, word in enumerate(words[:-1]) if word in (b"--socket", b"--vhost-socket")]
        if program == "vcudad" and any(path.startswith(os.fsencode(f"{folder}/")) for path in paths):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def end_leftovers(folder):
    """Ends vcudads of this folder that an earlier run of this program has left, which was killed."""
    found = [descriptor for process in filter(str.isdigit, os.listdir("/proc")) if (descriptor := leftover(process, folder)) is not None]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for descriptor in found:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        end = time.monotonic() + 10
        for descriptor in list(found):
            if select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                found.remove(descriptor)
                os.close(descriptor)
    for descriptor in found:
        os.close(descriptor)


class Units:
    """All units of a plug-in. Each method may be called by any thread. A vcudad that starts or ends holds up its own unit only."""

    def __init__(self, settings, changed):
        """`changed` is called, without a lock, after a unit has ended or is there again."""
        self.settings = settings
        self.changed = changed
        self.lock = threading.RLock()
        self.units = {}
        self.stopping = False
        self.starts = threading.BoundedSemaphore(PARALLEL_STARTS)
        self.run = pathlib.Path(settings.run)
        self.cdi = pathlib.Path(settings.cdi)
        self.state = pathlib.Path(settings.state, "units.json")
        self.groups, self.host_memory_mib = Groups(), settings.host_memory
        for folder, mode in ((self.run, 0o700), (self.state.parent, 0o700), (self.cdi, 0o755)):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)

    # ---- the file of state ----

    def load(self):
        """Takes the units that the file names; watch() starts them. Removes what an earlier run has left of others."""
        units = self._read()
        end_leftovers(self.run)
        self._open_groups()
        for path in [*self.run.glob(f"{self.settings.kind}-*"), *self.run.glob("probe*")]:
            if path.name not in units:
                shutil.rmtree(path, ignore_errors=True)
        for path in self.cdi.glob(f"virtio-cuda-{self.settings.kind}-*.json"):
            # Another driver may share the folder: a file of this one names a folder of `run`.
            if path.name not in map(self._cdi_name, units) and json.dumps(f"{self.run}/")[:-1].encode() in path.read_bytes():
                path.unlink()
        self.units = units

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

    def _write(self, units):
        text = json.dumps({"version": STATE_VERSION, "units": [dataclasses.asdict(unit) for unit in units]}, indent=1)
        write_file(self.state, text + "\n")

    def _open_groups(self):
        """Host memory has no limit where vcudad can set none."""
        if not self.host_memory_mib:
            return
        try:
            self.groups.open()
            with tempfile.TemporaryDirectory(prefix="probe", dir=self.run) as folder:
                stop([Daemon(self.settings, "probe", ["--socket", f"{folder}/socket", "--control", "none", "--max-host-memory", "1G"], {},
                             self.groups.make("probe"))])
        except (Failure, OSError) as failure:
            log(f"the host memory of vcudads has no limit: {failure}")
            self.host_memory_mib = 0
        self.groups.remove("probe")

    def _host_memory(self, unit):
        """vcudad's option. A software GPU has its memory there, and a GPU's memory is there while it is released."""
        if not self.host_memory_mib or "max-host-memory" in unit.quotas:
            return []
        return ["--max-host-memory", f"{unit.memory_mib * len(unit.uuids) + self.host_memory_mib}M"]

    # ---- one unit ----

    def find(self, name):
        """The unit, also one that is being removed."""
        with self.lock:
            return self.units.get(name)

    def all(self):
        """The units of the file of state."""
        with self.lock:
            return [unit for unit in self.units.values() if not unit.over]

    def failing(self):
        """The units whose vcudad has ended or does not start."""
        return [unit for unit in self.all() if unit.retry]

    def ensure(self, unit, wanted=lambda: True):
        """The CDI name of the unit, which listens. A unit of this name that is there already is left as it is. Raises Failure.

        A new unit is made only while `wanted()` is true.
        """
        if not NAME.fullmatch(unit.name):
            raise Failure(f"{unit.name!r} cannot be the name of a file")
        new = False
        try:
            while True:
                with self.lock:
                    there = self.units.get(unit.name)
                    if not there:
                        if unit.over or not wanted():
                            raise Failure(f"{unit.name} is over")
                        self._write([*self.all(), unit])
                        self.units[unit.name] = there = unit
                        new = True
                if not there.over:
                    break
                self.remove(there)
            with there.lock:
                if not there.listens():
                    self._start(there)
                elif not self._cdi_file(there).exists():
                    self._describe(there)
        except (Failure, OSError) as error:
            if new:
                self._discard(unit)
            raise Failure(str(error)) from error
        return f"{KIND}={unit.name}"

    def _discard(self, unit):
        """Removes a unit that was never given to a container."""
        try:
            self.remove(unit)
        except OSError as error:
            log(f"{unit.name} cannot be removed: {error}")

    def remove(self, unit):
        """Ends the unit and what it has on the node; another unit of its name stays. Raises OSError, and the next call goes on."""
        with unit.lock:
            with self.lock:
                if self.units.get(unit.name) is not unit:
                    return
                # First of all, so that no failure below brings the unit back with the next run.
                self._write([other for other in self.all() if other is not unit])
                unit.over = True
            if unit.daemon:
                stop([unit.daemon])
            self._cdi_file(unit).unlink(missing_ok=True)
            shutil.rmtree(self.run / unit.name, ignore_errors=True)
            self.groups.remove(unit.name)
            with self.lock:
                del self.units[unit.name]

    def _socket(self, unit):
        return self.run / unit.name / ("vhost.sock" if self.settings.vm else "socket")

    def _start(self, unit):
        """The caller holds the unit's lock."""
        if unit.over or self.stopping:
            raise Failure(f"{unit.name} is over")
        if unit.daemon:
            stop([unit.daemon])
            unit.daemon = None
        path = self._socket(unit)
        path.parent.mkdir(mode=0o755, exist_ok=True)
        if len(os.fsencode(path)) > 100:
            raise Failure(f"{path} is too long for a socket; choose a shorter --run")
        arguments = ["--name", unit.name, "--vhost-socket" if self.settings.vm else "--socket", str(path), "--socket-mode", "0666",
                     "--max-device-memory", f"{unit.memory_mib}M", "--share", str(unit.share)]
        if not self.settings.vm:
            arguments.append("--allow-any-user")
        arguments += self._host_memory(unit)
        for name, value in unit.quotas.items():
            arguments += [f"--{name}", str(value)]
        daemon = Daemon(self.settings, unit.name, arguments, {"CUDA_VISIBLE_DEVICES": ",".join(unit.uuids)},
                        self.groups.make(unit.name))
        try:
            self._describe(unit)
        except BaseException:
            stop([daemon])
            raise
        unit.daemon, unit.retry = daemon, None
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
        try:
            return json.loads(answer.stdout)
        except ValueError as error:
            raise Failure(f"`vcuda cdi generate` writes what is no JSON: {error}") from error

    # ---- vcudads that end ----

    def _failed(self, unit, words):
        pause = min(2 * unit.retry[1], LONGEST_PAUSE_S) if unit.retry else FIRST_PAUSE_S
        unit.retry = (time.monotonic() + pause, pause)
        log(f"{unit.name} has no vcudad, and gets another one in {pause} s: {words}")

    def watch(self):
        """Called about once a second: starts the vcudads that are missing, in threads."""
        changes = False
        for unit in self.all():
            if unit.listens() or not unit.lock.acquire(blocking=False):
                continue
            try:
                if unit.daemon and not unit.retry:
                    changes = True
                    self._failed(unit, "it has ended " + " ".join(unit.daemon.last))
                due = not unit.retry or time.monotonic() >= unit.retry[0]
            finally:
                unit.lock.release()
            if due:
                threading.Thread(target=self._start_again, args=[unit], daemon=True).start()
        if changes:
            self.changed()

    def _start_again(self, unit):
        with unit.lock, self.starts:
            if unit.over or self.stopping or unit.listens():
                return
            try:
                self._start(unit)
            except (Failure, OSError) as error:
                self._failed(unit, str(error))
        self.changed()

    def stop(self):
        """Ends all vcudads. The state and the CDI files stay for the next run."""
        self.stopping = True
        daemons = []
        for unit in self.all():
            with unit.lock:  # a start that is under way ends first
                if unit.daemon:
                    daemons.append(unit.daemon)
        stop(daemons)
