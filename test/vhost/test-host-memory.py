# SPDX-License-Identifier: Apache-2.0
"""The limit of the host's memory: the kernel ends only the worker that is over it."""
import glob
import os
import re
import subprocess
import tempfile
import unittest

import vmm
from vmm import ERROR, LAST, LOST, WAKE, WRITABLE, Daemon, Vmm, wait

MIB = 1 << 20
NO_LIMIT = (1 << 63) - 1
WINDOW = 0x7f1234500000
GROUP_MOUNTS = re.compile(r'^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2? ', re.MULTILINE)


def folders(daemon_pid):
    """The folders of the control groups that a daemon has made, in any hierarchy."""
    with open('/proc/self/mountinfo') as mounts:
        points = GROUP_MOUNTS.findall(mounts.read())
    return [path for point in points for path in glob.glob(f'{point}/**/vcudad-*-{daemon_pid}-*', recursive=True)]


def limited(*options):
    """A daemon, or None where the machine lends no group with a limit of memory."""
    try:
        return Daemon(*options)
    except AssertionError as error:
        if 'may make no control group with a limit of memory' in str(error):
            return None
        raise


class Limit(unittest.TestCase):
    limit = 64

    def setUp(self):
        self.daemon = limited('--max-host-memory', f'{self.limit}M')
        if not self.daemon:
            self.skipTest('no control group with a limit of memory')
        self.vmm = Vmm(self.daemon).start()
        self.addCleanup(self.end)

    def end(self):
        pid = self.daemon.process.pid
        self.vmm.close()
        self.daemon.stop()
        self.assertEqual([path for path in folders(pid) if not path.endswith('.daemon')], [])

    def limits(self):
        """The limits that the kernel has."""
        names = [name for path in folders(self.daemon.process.pid) for name in ('memory.max', 'memory.limit_in_bytes')
                 for name in glob.glob(f'{path}/{name}')]
        values = []
        for name in names:
            with open(name) as file:
                values.append(file.read().strip())
        return [int(value) for value in values if value != 'max']

    def ram(self):
        return self.vmm.ram.low + self.vmm.ram.high

    def test_the_greedy_one_is_killed(self):
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        self.assertEqual(self.vmm.create(2, uid=vmm.EATS_ON_DOORBELL, pid=77)[0][0], 0)
        self.vmm.ring(2)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EDQUOT'], 2))
        log = self.daemon.log()
        self.assertRegex(log, r'worker \d+ \(guest process 77 of user \d+\) was killed by the kernel: .*raise --max-host-memory')
        used, limit, refused = self.daemon.quota('max-host-memory')
        self.assertEqual((limit, refused), (self.limit * MIB, 1))
        self.assertGreater(used, 0)
        self.vmm.ring(1)
        self.assertEqual(self.vmm.event(), (WAKE, 0, 1))

    def test_vcudad_is_in_no_limited_group(self):
        self.vmm.create(1)
        with open(f'/proc/{self.daemon.process.pid}/cgroup') as file:
            own = file.read()
        with open(f'/proc/{self.daemon.workers()[0]}/cgroup') as file:
            workers = file.read()
        name = re.compile(r'(?:memory|^0):?.*/vcudad-[^./\n]*(?:/|$)', re.MULTILINE)
        self.assertNotRegex(own, name)
        self.assertRegex(workers, name)

    def test_ram_of_the_vm_is_no_part_of_it(self):
        """Pages of the VM that a worker touches first are charged to the worker's group."""
        self.assertEqual(self.limits(), [self.limit * MIB + self.ram()])
        self.vmm.create(1, uid=vmm.FILLS_MAPPINGS)
        more = (self.limit + 16) * MIB
        extents = [(self.vmm.ram.allocate(more, MIB), more)]
        self.assertEqual(self.vmm.request(vmm.MAP, context=1, address=WINDOW, length=more, flags=WRITABLE | LAST,
                                          extents=extents), 0, self.daemon.log())
        self.assertGreater(self.daemon.quota('max-host-memory')[0], more - 8 * MIB)
        self.vmm.ring(1)
        self.assertEqual(self.vmm.event(), (WAKE, 0, 1))
        self.vmm.close()
        self.assertTrue(wait(lambda: self.limits() == [self.limit * MIB]), self.limits())
        self.vmm = Vmm(self.daemon).start()
        self.assertTrue(wait(lambda: self.limits() == [self.limit * MIB + self.ram()]), self.limits())

    def test_changes(self):
        self.assertEqual(self.vmm.create(1, uid=vmm.EATS_ON_DOORBELL)[0][0], 0)
        self.assertEqual(self.daemon.ask('set max-host-memory 1G'), ['ok'])
        self.assertEqual(self.limits(), [1024 * MIB + self.ram()])
        self.vmm.ring(1)
        self.assertEqual(self.vmm.event(), (WAKE, 0, 1))
        # No worker is killed for a lower limit.
        answer, = self.daemon.ask('set max-host-memory 64M')
        self.assertRegex(answer, r'^error max-host-memory: the workers have [56]\d\d MiB now')
        self.assertEqual(self.daemon.quota('max-host-memory')[1], 1024 * MIB)
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        self.assertTrue(wait(lambda: self.daemon.ask('set max-host-memory 64M') == ['ok']))
        self.assertEqual(self.limits(), [64 * MIB + self.ram()])
        self.assertEqual(self.daemon.ask(f'set max-host-memory {NO_LIMIT}'), ['ok'])
        self.assertEqual([limit for limit in self.limits() if limit < 1 << 50], [])


class Warm(unittest.TestCase):
    def test_workers_in_advance(self):
        os.environ['VCUDA_FAKE_WARM'] = 'waits'
        self.addCleanup(os.environ.pop, 'VCUDA_FAKE_WARM')
        daemon = limited('--max-host-memory', '64M', '--warm', '1', '--warm-once')
        if not daemon:
            self.skipTest('no control group with a limit of memory')
        guest = Vmm(daemon).start()
        self.assertEqual(guest.create(1, uid=vmm.EATS_ON_DOORBELL)[0][0], 0)
        guest.ring(1)
        self.assertEqual(guest.event(), (LOST, ERROR['EDQUOT'], 1))
        guest.close()
        daemon.stop()


class Stale(unittest.TestCase):
    def test_groups_of_a_killed_daemon(self):
        first = limited('--max-host-memory', '64M')
        if not first:
            self.skipTest('no control group with a limit of memory')
        guest = Vmm(first).start()
        guest.create(1, uid=vmm.FORKS)
        first.process.kill()
        first.process.wait(vmm.LIMIT)
        self.assertTrue(folders(first.process.pid))
        second = limited('--max-host-memory', '64M')
        self.assertTrue(wait(lambda: not folders(first.process.pid)), folders(first.process.pid))
        second.stop()
        guest.close()
        first.directory.cleanup()


class WithoutGroups(unittest.TestCase):
    @unittest.skipIf(os.geteuid(), 'needs root to hide control groups')
    def test_an_option_that_cannot_be_kept(self):
        with tempfile.TemporaryDirectory(prefix='vcuda-test-') as folder:
            script = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
            result = subprocess.run(['unshare', '--mount', 'sh', '-c', script, 'sh', vmm.VCUDAD, '--worker', vmm.FAKE_WORKER, '--sandbox', 'off',
                                     '--socket', f'{folder}/socket', '--max-host-memory', '1G'],
                                    capture_output=True, text=True, timeout=vmm.LIMIT, check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn('--max-host-memory: vcudad may make no control group', result.stderr)
            self.assertIn('Delegate=yes', result.stderr)

    def test_a_later_limit_needs_one_at_the_start(self):
        daemon = Daemon()
        answer, = daemon.ask('set max-host-memory 1G')
        self.assertTrue(answer == 'ok' or 'give vcudad a limit when it starts' in answer, answer)
        self.assertEqual(answer == 'ok', {quota['name']: quota for quota in daemon.status()['quota']}['max-host-memory']['limit'] == str(1 << 30))
        daemon.stop()


if __name__ == '__main__':
    vmm.main()
