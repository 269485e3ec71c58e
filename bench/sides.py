# SPDX-License-Identifier: Apache-2.0
"""The two sides of a comparison, native and virtual: how a program is started on each, and the daemon of the second."""

import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time


class Failed(Exception):
    """A program did not do what it was started for; the text says what it said."""


def last_words(result):
    lines = [line for line in (result.stderr or "").splitlines() + (result.stdout or "").splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else f"exit status {result.returncode}"


def figures_of(output):
    """{name: (value, unit)} of the lines `NAME VALUE UNIT`."""
    figures = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 3:
            try:
                figures[words[0]] = (float(words[1]), words[2])
            except ValueError:
                continue
    return figures


def split(prefix):
    """A command as its words; its program by a path that holds in other folders too."""
    words = shlex.split(prefix)
    if words and "/" in words[0]:
        words[0] = os.path.abspath(words[0])
    return words


class Daemon:
    """A vcudad of our own, which runs as long as the measurements do, as one does for a VM."""

    def __init__(self, options):
        self.directory = tempfile.mkdtemp(prefix="vcuda-bench-")
        self.socket = f"{self.directory}/socket"
        ready, tell = os.pipe()
        environment = dict(os.environ)
        # our libcuda.so.1 must not be taken for the host's driver
        if options.guest_lib in environment.get("LD_LIBRARY_PATH", ""):
            del environment["LD_LIBRARY_PATH"]
        command = [options.daemon, "--socket", self.socket, "--backend", options.backend, "--ready-fd", str(tell)]
        try:
            with open(f"{self.directory}/log", "w", encoding="utf-8") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, env=environment,
                                                pass_fds=[tell], start_new_session=True)
        except OSError as why:
            shutil.rmtree(self.directory)
            raise Failed(f"cannot start {options.daemon}: {why.strerror}") from None
        finally:
            os.close(tell)
        said = os.read(ready, 16)
        os.close(ready)
        if not said:
            log = pathlib.Path(self.directory, "log").read_text(errors="replace").strip()
            self.stop()
            raise Failed(f"vcudad does not start: {log or 'it says nothing'}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class Side:
    """A side of the comparison: the words in front of a program's command, and its environment."""

    def __init__(self, name, prefix, daemon=None, local=True, **environment):
        self.name, self.prefix, self.daemon = name, prefix, daemon
        self.local = local  # the program runs on this machine, so that it can be looked at
        self.environment = {**os.environ, **environment}

    def start(self, command, **settings):
        words = [*self.prefix, *map(str, command)]
        try:
            return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                    env=self.environment, start_new_session=True, **settings)
        except OSError as why:
            raise Failed(f"cannot start {words[0]}: {why.strerror}") from None

    def run(self, command, timeout, folder=None):
        """The program's result and its seconds from start to exit."""
        start = time.monotonic()
        process = self.start(command, stdin=subprocess.DEVNULL, cwd=folder)
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException as why:  # an interruption too: it has a session of its own, which the terminal does not reach
            end(process)
            if isinstance(why, subprocess.TimeoutExpired):
                raise Failed(f"not done after {timeout} s") from None
            raise
        seconds = time.monotonic() - start
        result = subprocess.CompletedProcess(command, process.returncode, out, err)
        if result.returncode:
            raise Failed(last_words(result))
        return result, seconds


def end(process):
    """With all that it has started: it leads a session."""
    os.killpg(process.pid, 9)
    process.communicate()


def asking(options):
    """The command that prints the device; virtio-cuda's library adds transport and back end. env sets the variable,
    since a VM passes no environment on."""
    return ["env", "VCUDA_VERBOSE=1", options.programs / "driver-bench", "info"]


def virtual_side(options):
    if options.virtual is not None:
        prefix = split(options.virtual)
        return Side("virtual", prefix, local="vm" not in prefix)
    daemon = Daemon(options)
    return Side("virtual", [options.vcuda, "run", "--"], daemon, VCUDA_SOCKET=daemon.socket)


def native_side(options):
    """(side, None), or (None, why not)."""
    if options.no_native:
        return None, "--no-native"
    side = Side("native", split(options.native))
    try:
        said, _ = side.run(asking(options), 60)
    except Failed as why:
        return None, str(why)
    if "vcuda: transport" in said.stderr and not options.native:
        return None, "libcuda.so.1 in LD_LIBRARY_PATH is virtio-cuda's own"
    return side, None
