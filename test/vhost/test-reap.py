# SPDX-License-Identifier: Apache-2.0
"""Workers that leave processes behind: vcudad answers when the last of them is gone."""
import errno
import glob
import os
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import vmm
from vmm import ERROR, LAST, LOST, WRITABLE, wait

WINDOW = 0x7f1234500000
COUNTERS, PROCESSES, KINDS = 8, 16, 4  # words of the shared area, as in fake-worker.c
FROZEN = f'/sys/fs/cgroup/freezer/vcuda-test-{os.getpid()}'
GROUP_MOUNTS = re.compile(r'^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2? ', re.MULTILINE)


def folders(daemon_pid):
    """The folders of the control groups that a daemon has made, in any hierarchy."""
    with open('/proc/self/mountinfo') as mounts:
        points = GROUP_MOUNTS.findall(mounts.read())
    return [path for point in points for path in glob.glob(f'{point}/**/vcudad-*-{daemon_pid}-*', recursive=True)]


def is_running(pid):
    try:
        with open(f'/proc/{pid}/stat') as stat:
            return stat.read().rpartition(')')[2].split()[0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


class Reaping:
    """For each way to end the processes of a worker."""
    way = ''
    kept = KINDS  # kinds of processes that live as long as the worker

    def setUp(self):
        os.environ['VCUDA_TEST_GROUPS'] = self.way
        # Processes that a worker starts inherit its environment: this variable finds them.
        os.environ['VCUDA_TEST_MARK'] = f'{os.getpid()}-{time.monotonic_ns()}'
        try:
            self.daemon = vmm.Daemon()
        except AssertionError as error:
            if 'does not work here' in str(error):
                self.skipTest(f'control groups: {self.way}')
            raise
        finally:
            self.mark = os.environ.pop('VCUDA_TEST_MARK')
            del os.environ['VCUDA_TEST_GROUPS']
        self.vmm = vmm.Vmm(self.daemon).start()
        self.addCleanup(self.end)

    def end(self):
        pid = self.daemon.process.pid
        self.vmm.close()
        self.daemon.stop()
        self.assertEqual(folders(pid), [])

    def marked(self):
        """Running processes that come from vcudad."""
        found = []
        for path in glob.glob('/proc/[0-9]*/environ'):
            try:
                with open(path, 'rb') as environ:
                    if f'VCUDA_TEST_MARK={self.mark}\0'.encode() in environ.read():
                        found.append(int(path.split('/')[2]))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return [pid for pid in found if pid != self.daemon.process.pid and is_running(pid)]

    def create(self, context=1):
        """A worker that leaves processes, all of which write to the shared area, which is returned."""
        reply, extents = self.vmm.create(context, uid=vmm.FORKS)
        self.assertEqual(reply[0], 0)
        self.shared = extents[0][0]
        self.assertTrue(wait(lambda: all(self.words(COUNTERS, self.kept))), 'the processes do not write')
        return self.shared

    def words(self, first, count=KINDS):
        return struct.unpack(f'<{count}Q', self.vmm.ram.read(self.shared + 8 * first, 8 * count))

    def worker(self):
        return self.vmm.ram.word(self.shared)

    def assert_gone(self):
        before = self.words(0, 32)
        self.assertEqual(self.marked(), [])
        time.sleep(0.3)
        self.assertEqual(self.words(0, 32), before, 'a page of the guest changes after the answer')
        self.assertEqual(self.daemon.workers(), [])

    def test_destroy(self):
        for _ in range(3):
            self.create()
            self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
            self.assert_gone()

    def test_unmap_after_a_kill(self):
        self.create()
        self.assertEqual(self.vmm.request(vmm.MAP, context=1, address=WINDOW, length=4096, flags=WRITABLE | LAST,
                                          extents=[(self.vmm.ram.allocate(4096, 4096), 4096)]), 0)
        os.kill(self.worker(), signal.SIGKILL)
        self.assertEqual(self.vmm.request(vmm.UNMAP, context=1, address=WINDOW, length=4096), 0)
        self.assert_gone()
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 1))

    def test_reset(self):
        self.create()
        for queue in self.vmm.queues:
            self.vmm.stop_queue(queue)
        self.assert_gone()

    def test_hello(self):
        self.create()
        self.assertEqual(self.vmm.hello()[0], 0)
        self.assert_gone()

    def test_the_vm_is_gone(self):
        self.create()
        self.vmm.close()
        self.assertTrue(wait(lambda: not self.marked()), 'processes are left')
        self.vmm = vmm.Vmm(self.daemon).start()

    def test_the_end_of_vcudad(self):
        self.create()
        self.daemon.process.terminate()
        self.assertEqual(self.daemon.process.wait(vmm.LIMIT), 0)
        self.assertEqual(self.marked(), [])

    def test_neighbours_live_on(self):
        """Also one whose worker leaves a process in vcudad's care."""
        self.vmm.create(2)
        self.create(1)
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        self.vmm.ring(2)
        self.assertEqual(self.vmm.event(), (vmm.WAKE, 0, 2))
        self.assertEqual(len(self.daemon.workers()), 1)

    def unkillable(self, pid):
        """A process that SIGKILL does not end for as long as the test wants it."""
        try:
            os.mkdir(FROZEN)
        except OSError:
            self.skipTest('no freezer of version 1 to be used')
        self.addCleanup(os.rmdir, FROZEN)
        self.freeze('FROZEN')
        self.addCleanup(self.freeze, 'THAWED')
        with open(f'{FROZEN}/cgroup.procs', 'w') as processes:
            processes.write(str(pid))

    def freeze(self, state):
        with open(f'{FROZEN}/freezer.state', 'w') as file:
            file.write(state)

    def test_one_that_cannot_be_killed(self):
        if self.way == 'v1':
            self.skipTest('the process would leave its group for that of the test')
        self.create()
        child = self.words(PROCESSES)[0]
        self.unkillable(child)
        head = self.vmm.submit(vmm.DESTROY, context=1)
        self.assertTrue(self.daemon.wait_log('cannot be killed'))
        self.assertFalse(self.vmm.answered(head))
        self.assertTrue(is_running(child))
        self.freeze('THAWED')
        self.assertEqual(self.vmm.result(head)[0], 0)
        self.assert_gone()


class Version2(Reaping, unittest.TestCase):
    way = 'v2'


class Version1(Reaping, unittest.TestCase):
    way = 'v1'


class SubReaper(Reaping, unittest.TestCase):
    way = 'none'
    kept = 1

    def test_children_of_the_program_that_became_vcudad(self):
        """vcudad, started by exec from a script, does not end the script's children."""
        script = 'sleep 600 & echo $! >"$0"; exec "$@"'
        path = os.path.join(self.daemon.directory.name, 'second')
        second = subprocess.Popen(['sh', '-c', script, f'{path}.pid', vmm.VCUDAD, '--worker', vmm.FAKE_WORKER, '--sandbox', 'off',
                                   '--vhost-socket', path],
                                  env={**os.environ, 'VCUDA_TEST_GROUPS': self.way}, stderr=subprocess.DEVNULL)
        self.assertTrue(wait(lambda: os.path.exists(path)))
        with open(f'{path}.pid') as file:
            sleeper = int(file.read())
        own = self.daemon.vhost_path
        self.daemon.vhost_path = path
        vm = vmm.Vmm(self.daemon).start()
        self.daemon.vhost_path = own
        self.assertEqual(vm.create(1, uid=vmm.FORKS)[0][0], 0)
        self.assertEqual(vm.request(vmm.DESTROY, context=1), 0)
        self.assertTrue(is_running(sleeper))
        os.kill(sleeper, signal.SIGKILL)
        vm.close()
        second.terminate()
        self.assertEqual(second.wait(vmm.LIMIT), 0)


class Stale(unittest.TestCase):
    """A vcudad that was killed leaves its groups, and processes of a hostile worker in them, to the next one."""

    def leave_groups(self, case):
        first = case('test_destroy')
        first.setUp()
        first.create()
        first.daemon.process.kill()
        first.daemon.process.wait(vmm.LIMIT)
        self.assertTrue(first.marked())
        left = folders(first.daemon.process.pid)
        self.assertEqual(len(left), 1)
        second = case('test_destroy')
        second.setUp()
        self.assertTrue(wait(lambda: not first.marked() and not os.path.exists(left[0])), second.daemon.log())
        second.end()
        first.vmm.close()
        first.daemon.directory.cleanup()

    def test_version_2(self):
        self.leave_groups(Version2)

    def test_version_1(self):
        self.leave_groups(Version1)


# Leaves a process in its control group, whose number it writes.
LEAVES_ONE = '''#!/bin/sh
setsid sh -c 'echo $$ >{mark}.new; mv {mark}.new {mark}; exec sleep 600' &
wait
'''


class Start(unittest.TestCase):
    """A worker that vcudad cannot watch does not live on, nor does what it has started."""

    @unittest.skipIf(vmm.SANITIZED or not os.environ.get('EPOLL_FAILS'), 'the sanitizer must be the first library')
    def test_what_an_unwatched_worker_has_started(self):
        for way in 'v2', 'v1':
            with self.subTest(way=way), tempfile.TemporaryDirectory(prefix='vcuda-test-') as folder:
                self.start(way, folder)

    def start(self, way, folder):
        mark, program = f'{folder}/mark', f'{folder}/worker'
        with open(program, 'w') as file:
            file.write(LEAVES_ONE.format(mark=mark))
        os.chmod(program, 0o700)
        own = {'LD_PRELOAD': os.environ['EPOLL_FAILS'], 'VCUDA_TEST_WAITS_FOR': mark, 'VCUDA_TEST_GROUPS': way}
        os.environ.update(own)
        try:
            daemon = vmm.Daemon('--sandbox', 'off', vhost=False, local=True, worker=program)
        except AssertionError as error:
            if 'does not work here' in str(error):
                return
            raise
        finally:
            for name in own:
                del os.environ[name]
        client = vmm.Client(daemon)
        self.assertTrue(wait(lambda: os.path.exists(mark)))
        self.assertIsNone(client.attach())
        self.assertEqual(client.refused, errno.ENOEXEC)
        with open(mark) as file:
            child = int(file.read())
        self.assertTrue(wait(lambda: not is_running(child)), 'what the worker has started is left')
        groups, = folders(daemon.process.pid)
        self.assertTrue(wait(lambda: not [entry for entry in os.scandir(groups) if entry.is_dir()]), 'its group is left')
        client.socket.close()
        daemon.stop()


if __name__ == '__main__':
    vmm.main()
