# SPDX-License-Identifier: Apache-2.0
"""Starts and stops vcudad."""

import collections
import os
import select
import subprocess
import sys
import threading
import time

START_LIMIT_S = 60
STOP_LIMIT_S = 20


class Failure(Exception):
    """An error whose text is a sentence for the operator."""


def log(text):
    print(f"virtio-cuda: {text}", file=sys.stderr, flush=True)


class Daemon(subprocess.Popen):
    """A vcudad. Its log goes on to ours, and its last lines say why it has ended."""

    def __init__(self, settings, name, arguments, environment, group=None):
        """Returns when it listens. Raises Failure. `group`: the folder of its control group; None for that of this process."""
        self.last = collections.deque(maxlen=3)
        options = ["--backend", settings.backend, *(["--config", settings.config] if settings.config else []), *arguments]
        enter = ["/bin/sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', str(group)] if group else []
        ready, told = os.pipe()
        with os.fdopen(ready, "rb", buffering=0) as pipe:
            try:
                super().__init__([*enter, settings.vcudad, *options, "--ready-fd", str(told)], pass_fds=[told], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                                 env=settings.environment(**environment), start_new_session=True)
            except OSError as error:
                raise Failure(f"{settings.vcudad} cannot be started: {error.strerror}") from error
            finally:
                os.close(told)
            self.reader = threading.Thread(target=self._read, args=[name], daemon=True)
            self.reader.start()
            listens = bool(select.select([pipe], [], [], START_LIMIT_S)[0]) and pipe.read(1) != b""
        if not listens:
            stop([self])
            self.reader.join(1)  # an arbiter that it has started has the pipe too
            raise Failure("vcudad does not start: " + " ".join(self.last))

    def _read(self, name):
        for line in self.stderr:
            self.last.append(line.strip())
            log(f"{name}: {line.strip()}")


def stop(daemons):
    """All at once, with SIGTERM, and with SIGKILL those that do not end."""
    for daemon in daemons:
        daemon.terminate()
    end = time.monotonic() + STOP_LIMIT_S
    for daemon in daemons:
        try:
            daemon.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
