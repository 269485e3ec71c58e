# SPDX-License-Identifier: Apache-2.0
"""The common part of both plug-ins: it finds the GPUs, keeps the units, and serves on sockets."""

import concurrent.futures
import os
import pathlib
import threading
import time

import grpc

from . import gpus
from .daemon import Failure, log
from .units import Units

WATCH_S = 1
PROBES = 3


class Plugin:
    """A plug-in has `serve()`, `tick()` and `close()`, and is told by `changed()` of units and GPUs."""

    def __init__(self, settings):
        self.settings = settings
        self.condition = threading.Condition()
        self.version = 0
        self.gpus = {}
        self.lost = set()
        self.suspect = False
        self.next_probe, self.failed_probes = 0, 0
        self.complaints = {}
        self.units = Units(settings, self.changed)

    def changed(self):
        """Wakes those that tell the kubelet what is healthy."""
        with self.condition:
            self.version += 1
            self.condition.notify_all()

    def start(self):
        found = gpus.probe(self.settings)
        if not found:
            raise Failure("vcudad has no GPU here")
        self.gpus = {gpu.uuid: gpu for gpu in found}
        for gpu in found:
            log(f"{gpu.name} is {gpu.uuid}, {gpu.product}, {gpu.memory_mib} MiB")
        self.units.load()
        self.serve()

    def probe_again(self):
        """While a vcudad does not start or a GPU is lost: which GPUs are there?"""
        if not (self.suspect or self.lost or self.units.failing()) or time.monotonic() < self.next_probe:
            return
        self.next_probe = time.monotonic() + self.settings.probe_interval
        try:
            found = {gpu.uuid for gpu in gpus.probe(self.settings)}
        except (Failure, OSError) as failure:
            log(str(failure))
            self.failed_probes += 1
            if self.failed_probes < PROBES:  # a node that is short of something says little of its GPUs
                self.suspect = True
                return
            found = set()
        self.suspect, self.failed_probes = False, 0
        lost = set(self.gpus) - found
        if lost != self.lost:
            log("these GPUs are gone: " + ", ".join(sorted(lost)) if lost else "all GPUs are there again")
            self.lost = lost
            self.changed()

    def run(self, stopped):
        """Until the event `stopped` is set."""
        try:
            self.start()
            while not stopped.wait(WATCH_S):
                for step in (self.units.watch, self.probe_again, self.tick):
                    self.attempt(step)
        finally:
            try:
                self.close()
            finally:
                self.units.stop()

    def attempt(self, step):
        """A step that fails, as on a full disk, is tried again. Only a signal ends the vcudads of the node."""
        try:
            step()
            self.complaints.pop(step, None)
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.complain(step, f"{step.__name__}() fails, and is tried again: {type(error).__name__}: {error}")

    def complain(self, subject, text):
        """Once, not each second."""
        if text != self.complaints.get(subject):
            self.complaints[subject] = text
            log(text)


class Server:
    """A gRPC server on a socket of the file system."""

    def __init__(self, path, *handlers):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self.path = path
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
        self.server.add_generic_rpc_handlers(handlers)
        try:
            bound = self.server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise Failure(f"{path} cannot be listened on: {error}") from error
        if not bound:
            raise Failure(f"{path} cannot be listened on")
        self.server.start()

    def is_there(self):
        return self.path.is_socket()

    def close(self):
        self.server.stop(1).wait()
        self.path.unlink(missing_ok=True)


def identity(path):
    """Differs after the file has been made anew; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns
