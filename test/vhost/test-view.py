# SPDX-License-Identifier: Apache-2.0
"""The files, namespaces and user of a VM's workers: the real worker, and an attacker's code in it."""
import errno
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import vmm
from commands import Commands
from tracee import Tracee, poke

WORKER = os.environ.get('VCUDA_WORKER') or 'vcuda-worker'
BACKEND = os.environ.get('VCUDA_TEST_BACKEND', 'cpu')
# The folder of the cache that a worker with this back end has.
KEPT = 'nv' if BACKEND == 'cuda' else 'kernels'
PAGE = 4096
STAT, MMAP, SOCKET, CONNECT, GETUID = 4, 9, 41, 42, 102
NAMESPACES = ('mnt', 'net', 'ipc')
RETAIN, ALLOCATE, EXPORT, IMPORT, POOL_CREATE, POOL_EXPORT = 20, 41, 180, 181, 187, 188  # protocol/driver.api
ORDINARY = 12345


def may_unshare(*options):
    return subprocess.run(['unshare', *options, 'true'], capture_output=True, check=False).returncode == 0


def refusal(*options):
    """The message of a vcudad that does not start."""
    result = subprocess.run([vmm.VCUDAD, '--worker', WORKER, *options], capture_output=True, text=True, timeout=vmm.LIMIT, check=False)
    assert result.returncode in (1, 2), result
    return result.stderr


def namespaces(pid):
    return [os.readlink(f'/proc/{pid}/ns/{name}') for name in NAMESPACES]


def shared_memory(pid):
    """The file system in /dev/shm, and how it is mounted."""
    path = f'/proc/{pid}/root/dev/shm'
    return os.stat(path).st_dev, os.statvfs(path).f_flag


def identity(pid):
    """The users and groups of a process, each real, effective, saved and of files, and its other groups."""
    with open(f'/proc/{pid}/status') as status:
        lines = dict(line.rstrip('\n').split(':\t', 1) for line in status if ':\t' in line)
    return set(lines['Uid'].split()), set(lines['Gid'].split()), lines['Groups'].split()


def user(pid):
    uid, = identity(pid)[0]
    return int(uid)


class Vm:
    """A vcudad with real workers, and a device that says hello to each."""

    def __init__(self, *options, **arguments):
        self.daemon = vmm.Daemon('--backend', BACKEND, '--sandbox', 'best-effort', *options, worker=WORKER, **arguments)
        self.vmm = vmm.Vmm(self.daemon).start()
        self.commands = {}  # by worker

    def worker(self):
        before = self.daemon.workers()
        count = len(self.commands) + 1
        (status, _, _), shared = self.vmm.create(count, extents=self.vmm.shared_extents(1))
        assert status == 0, self.daemon.log()
        pid, = set(self.daemon.workers()) - set(before)
        self.commands[pid] = Commands(self.vmm, count, shared[0][0])
        assert self.commands[pid].hello() == 0, self.daemon.log()
        return pid

    def call(self, worker, number, *words, count=1):
        """The first `count` words of the reply. The worker has a context."""
        commands = self.commands[worker]
        result, current = commands.call(RETAIN, 0)
        assert result == 0, self.daemon.log()
        result, _ = commands.call(number, *words, current=current)
        assert result == 0, f'command {number}: {result}: {self.daemon.log()}'
        return commands.reply(count)

    def stop(self):
        self.vmm.close()
        return self.daemon.stop()


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='vcuda-view-')
        self.cache = os.path.join(self.folder.name, 'cache')
        self.before = dict(os.environ)
        os.environ['VCUDA_CACHE'] = self.cache
        os.environ.pop('CUDA_CACHE_PATH', None)
        self.vms = []

    def tearDown(self):
        for vm in self.vms:
            vm.stop()
        os.environ.clear()
        os.environ.update(self.before)
        self.folder.cleanup()

    def vm(self, *options, **arguments):
        self.vms.append(Vm(*options, **arguments))
        return self.vms[-1]

    def stop(self, vm):
        self.vms.remove(vm)
        return vm.stop()

    def connect(self, worker, path):
        """The result of a connect() in the worker to a socket of the host."""
        address = struct.pack('=H', socket.AF_UNIX) + path.encode() + b'\0'
        with Tracee(worker) as main:
            at = main.call(MMAP, 0, PAGE, 3, 0x22, -1, 0)
            poke(worker, at, address)
            fd = main.call(SOCKET, socket.AF_UNIX, socket.SOCK_STREAM, 0)
            self.assertGreaterEqual(fd, 0)
            return main.call(CONNECT, fd, at, len(address))

    def look(self, worker, path):
        with Tracee(worker) as main:
            at = main.call(MMAP, 0, PAGE, 3, 0x22, -1, 0)
            poke(worker, at, path.encode() + b'\0')
            return main.call(STAT, at, at + PAGE // 2)

    def check_refresh(self, vm):
        """The view is made anew: a later worker finds the memory that an earlier one shares."""
        one = vm.worker()
        address, = vm.call(one, ALLOCATE, 1 << 20)
        handle = vm.call(one, EXPORT, address, count=8)
        for _ in range(2):
            shutil.rmtree(self.cache)
            other = vm.worker()
            self.assertNotEqual(namespaces(one)[0], namespaces(other)[0])
            self.assertEqual(namespaces(one)[1:], namespaces(other)[1:])
            self.assertEqual(os.readlink(f'/proc/{one}/ns/user'), os.readlink(f'/proc/{other}/ns/user'))
            self.assertEqual(shared_memory(one), shared_memory(other))
            self.assertEqual(vm.call(other, IMPORT, *handle, count=2)[1], 1 << 20)

    def check_keeper(self, vm):
        """The VM's keeper has the view and the user of its workers."""
        worker = vm.worker()
        before = set(vm.daemon.workers())
        pool, = vm.call(worker, POOL_CREATE, 0, 0)
        vm.call(worker, POOL_EXPORT, pool, count=8)
        keeper, = set(vm.daemon.workers()) - before
        with open(f'/proc/{keeper}/comm') as name:
            self.assertEqual(name.read(), 'vcuda-keeper\n')
        self.assertEqual(identity(keeper), identity(worker))
        self.assertEqual(namespaces(keeper), namespaces(worker))
        self.assertFalse(set(namespaces(keeper)) & set(namespaces(os.getpid())))
        self.assertEqual(os.readlink(f'/proc/{keeper}/ns/user'), os.readlink(f'/proc/{worker}/ns/user'))

    def listen(self):
        path = os.path.join(self.folder.name, 'socket')
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        os.chmod(path, 0o666)
        os.chmod(self.folder.name, 0o755)
        listener.listen()
        return path


@unittest.skipIf(os.geteuid(), 'ptrace of a worker needs root')
@unittest.skipUnless(may_unshare('--mount'), 'vcudad may make no mount namespace here')
class View(Base):
    def test_sockets_of_the_host_are_not_there(self):
        path = self.listen()
        worker = self.vm().worker()
        self.assertEqual(self.connect(worker, path), -errno.ENOENT)
        self.assertEqual(self.look(worker, path), -errno.ENOENT)
        self.assertEqual(self.connect(self.vm('--sandbox', 'off').worker(), path), 0)

    def test_view_is_missing(self):
        os.environ['VCUDA_TEST_VIEW'] = 'none'
        vm = self.vm()
        worker = vm.worker()
        self.assertIn('workers go without', vm.daemon.log())
        self.assertEqual(user(worker), 0)
        self.assertEqual(self.connect(worker, self.listen()), 0)
        said = refusal('--vhost-socket', os.path.join(self.folder.name, 'vhost'), '--sandbox', 'strict')
        self.assertIn('--sandbox strict: vcudad cannot give workers a file system', said)

    def test_other_processes_are_not_there(self):
        vm = self.vm()
        one, other = vm.worker(), vm.worker()
        for pid in (vm.daemon.process.pid, other, 1):
            self.assertEqual(self.look(one, f'/proc/{pid}'), -errno.ENOENT)
        self.assertEqual(self.look(one, f'/proc/{one}'), 0)

    def test_workers_of_a_vm_have_one_view(self):
        vm = self.vm()
        one, other = vm.worker(), vm.worker()
        self.assertEqual(namespaces(one), namespaces(other))
        self.assertFalse(set(namespaces(one)) & set(namespaces(os.getpid())))
        self.assertEqual(os.readlink(f'/proc/{vm.daemon.process.pid}/ns/mnt'), os.readlink('/proc/self/ns/mnt'))

    def test_view_follows_the_files(self):
        """The cache is removed: a later worker has the new folder."""
        vm = self.vm('--cache', 'a')
        one = vm.worker()
        shutil.rmtree(self.cache)
        other = vm.worker()
        self.assertNotEqual(namespaces(one), namespaces(other))
        kernels = f'{self.cache}/vm/a/{user(other)}/{KEPT}'
        self.assertEqual(os.stat(f'/proc/{other}/root{kernels}').st_ino, os.stat(kernels).st_ino)

    def test_view_made_anew(self):
        self.check_refresh(self.vm('--cache', 'a', '--backend', 'auto'))

    def test_library_behind_links(self):
        """By its link's text the library is where the folder above, which is shown too, has no such file."""
        for name in ('real/deep', 'real/other'):
            os.makedirs(os.path.join(self.folder.name, name))
        os.symlink('real/deep', os.path.join(self.folder.name, 'lib'))
        os.symlink('../other/libx.so', os.path.join(self.folder.name, 'real/deep/libx.so'))
        with open(os.path.join(self.folder.name, 'real/other/libx.so'), 'w'):
            pass
        os.environ['LD_LIBRARY_PATH'] = f'{self.folder.name}:{self.folder.name}/lib'
        vm = self.vm()
        self.assertNotEqual(namespaces(vm.worker())[0], namespaces(os.getpid())[0], vm.daemon.log())


@unittest.skipIf(os.geteuid(), 'only root gives workers another user')
@unittest.skipUnless(may_unshare('--mount'), 'vcudad may make no mount namespace here')
class User(Base):
    def test_two_vms(self):
        users = [user(self.vm('--cache', name).worker()) for name in ('a', 'b')]
        self.assertNotEqual(*users)
        for uid in users:
            self.assertIn(uid, range(61184, 64000))

    def test_two_vms_with_one_cache(self):
        users = [user(self.vm('--cache', 'a').worker()) for _ in range(2)]
        self.assertNotEqual(*users)

    def test_workers_of_a_vm(self):
        vm = self.vm()
        one, other = vm.worker(), vm.worker()
        uid = str(user(one))
        self.assertEqual(identity(one), ({uid}, {uid}, []))
        self.assertEqual(identity(other), ({uid}, {uid}, []))
        with Tracee(one) as main:
            self.assertEqual(main.call(GETUID), int(uid))
        with open(f'/proc/{one}/status') as status:
            self.assertRegex(status.read(), r'CapPrm:\t0{16}\nCapEff:\t0{16}\nCapBnd:\t0{16}\n')

    def test_keeper(self):
        self.check_keeper(self.vm())

    def test_vm_that_starts_again(self):
        vm = self.vm('--cache', 'a')
        uid = user(vm.worker())
        self.stop(vm)
        self.assertEqual(user(self.vm('--cache', 'a').worker()), uid)
        for name in ('kernels', 'nv'):
            self.assertEqual(os.stat(f'{self.cache}/vm/a/{uid}/{name}').st_uid, uid)

    def test_none(self):
        self.assertEqual(user(self.vm('--worker-user', 'none').worker()), 0)
        self.assertEqual(user(self.vm('--cache', 'shared').worker()), 0)

    def test_given(self):
        worker = self.vm('--worker-user', '12345:23456').worker()
        self.assertEqual(identity(worker), ({'12345'}, {'23456'}, []))
        worker = self.vm('--worker-user', '12345').worker()
        self.assertEqual(identity(worker), ({'12345'}, {'12345'}, []))

    def test_user_who_cannot_work(self):
        """The folder is root's: workers stay root, and the log says why."""
        given = os.environ['CUDA_CACHE_PATH'] = os.path.join(self.folder.name, 'nv')
        os.mkdir(given, 0o700)
        vm = self.vm('--backend', 'auto')
        self.assertEqual(user(vm.worker()), 0)
        self.assertRegex(vm.daemon.log(), f"auto: workers run as vcudad's user: user 6[0-9]+ cannot use {given}: ")
        said = refusal('--vhost-socket', os.path.join(self.folder.name, 'vhost'), '--worker-user', '12345')
        self.assertIn(f'--worker-user 12345: user 12345 cannot use {given}: ', said)

    def test_nonsense(self):
        for text in ('', 'no-such-user', '0', '1:0', '-1', '1:', '1:x', '4294967295', '99999999999', 'root'):
            self.assertIn(f'--worker-user {text}: give', refusal('--vhost-socket', '/dev/null/x', '--worker-user', text))
        for options in (['--socket', '/dev/null/y'], ['--sandbox', 'off']):
            self.assertIn('only where', refusal('--vhost-socket', '/dev/null/x', '--worker-user', '1', *options))

    def test_local_programs_have_the_daemons_user(self):
        vm = self.vm(local=True)
        self.assertEqual(user(vm.worker()), 0)
        client = vmm.Client(vm.daemon)
        worker = client.attach()
        self.assertEqual(user(worker), 0)
        # of the daemon's user there may be others, with which its programs share memory
        self.assertNotEqual(namespaces(worker)[0], namespaces(os.getpid())[0])
        self.assertEqual(namespaces(worker)[1], namespaces(os.getpid())[1])
        client.close()


@unittest.skipUnless(may_unshare('--user', '--map-current-user', '--mount', '--net'), 'there are no user namespaces here')
class Ordinary(Base):
    """The vcudad of an ordinary user."""

    def setUp(self):
        super().setUp()
        os.chmod(self.folder.name, 0o777)
        self.uid = os.geteuid() or ORDINARY
        if not os.geteuid():
            try:
                subprocess.run([vmm.VCUDAD, '--version'], user=self.uid, stdout=subprocess.DEVNULL, check=True)
            except PermissionError:
                self.skipTest(f'other users may not run {vmm.VCUDAD}')

    def ordinary(self, *options):
        return self.vm(*options, user=self.uid)

    def test_view(self):
        path = self.listen()
        vm = self.ordinary()
        one, other = vm.worker(), vm.worker()
        self.assertNotIn('go without', vm.daemon.log())
        self.assertEqual(user(one), self.uid)
        self.assertEqual(namespaces(one), namespaces(other))
        self.assertFalse(set(namespaces(one)) & set(namespaces(os.getpid())))
        if not os.geteuid():
            self.assertEqual(self.connect(one, path), -errno.ENOENT)
            self.assertEqual(self.look(one, f'/proc/{vm.daemon.process.pid}/root/'), -errno.EACCES)
            self.assertEqual(self.connect(self.ordinary('--sandbox', 'off').worker(), path), 0)

    @unittest.skipIf(os.geteuid(), 'files in a view are looked at by root')
    def test_view_made_anew(self):
        self.check_refresh(self.ordinary('--cache', 'a', '--backend', 'auto'))

    def test_keeper(self):
        self.check_keeper(self.ordinary())

    def test_kernels_are_kept(self):
        vm = self.ordinary('--cache', 'a')
        worker = vm.worker()
        kernels = f'{self.cache}/vm/a/{KEPT}'
        self.assertEqual(os.stat(f'/proc/{worker}/root{kernels}').st_ino, os.stat(kernels).st_ino)


if __name__ == '__main__':
    vmm.main()
