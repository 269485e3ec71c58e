# SPDX-License-Identifier: Apache-2.0
"""Pauses that release memory, where the driver of the tests does it or refuses it: this test speaks for the workers."""
import os
import shutil
import signal
import tempfile
import unittest

import puppet
import vmm
from puppet import MIB, NOTE, SYNC
from vmm import wait

CLOSE, OPEN, RELEASE, RESTORE, SWAP = range(1, 6)
DONE, COMMAND_RUNS, DEVICE_BUSY, OUT_OF_MEMORY, NO_ROOM, NOT_SUPPORTED, SHARED = range(7)  # enum vcuda_gate_state
RUNNING, _, CHECKPOINTED = '012'  # of fake-driver/cuda.c


class Driver(puppet.DriverCase):
    options = ('--backend', 'cuda')

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.variables = {'VCUDA_TEST_CHECKPOINTS': self.folder}
        super().setUp()

    def driver(self, wish):
        """REFUSE-, CRASH- or HANG-CALL from now on."""
        open(os.path.join(self.folder, wish), 'w').close()

    def driver_works(self, wish):
        os.unlink(os.path.join(self.folder, wish))

    def at_driver(self, worker):
        path = os.path.join(self.folder, str(worker.pid))
        if not os.path.exists(path):
            return RUNNING
        with open(path) as file:
            return file.read()

    def pause(self, *workers, last=NOT_SUPPORTED):
        """All workers answer as those of the cuda back end do, the last one with `last`."""
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        for worker in workers:
            worker.answer(CLOSE)
        for worker in workers:
            self.assertIsNone(worker.answer(RELEASE, NOT_SUPPORTED if worker is not workers[-1] else last))

    def resume(self, *workers):
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        for worker in workers:
            worker.answer(OPEN)
            self.becomes(worker, 'running')
            self.assertEqual(self.at_driver(worker), RUNNING)

    def moved(self, worker):
        path = os.path.join(self.folder, f'moved-{worker.pid}')
        if not os.path.exists(path):
            return ''
        with open(path) as file:
            return file.read()

    def helpers(self, *workers):
        return set(self.daemon.workers()) - {worker.pid for worker in workers}

    def test_release_and_resume(self):
        a, b = self.worker(), self.worker()
        for _ in range(2):
            self.pause(a, b)
            for worker in a, b:
                self.becomes(worker, 'released')
                self.assertEqual(self.at_driver(worker), CHECKPOINTED)
            self.resume(a, b)
        self.assertTrue(wait(lambda: not self.helpers(a, b)))

    def test_all_or_none(self):
        """If the driver or a worker cannot release the memory of one process, the other process gets its memory back."""
        a, b = self.worker(), self.worker()
        for failure, state in ('shared', SHARED), ('driver', NOT_SUPPORTED):
            if failure == 'driver':
                self.driver('refuse-checkpoint')
            self.pause(a, b, last=state)
            for worker in a, b:
                worker.answer(OPEN)
                self.assertTrue(wait(lambda: self.state(worker)[0] == 'running'))
                self.assertEqual(self.at_driver(worker), RUNNING)
            self.assertIn(failure, (self.state(a)[1], self.state(b)[1]))
        self.assertIn(f'vcuda-checkpoint: cuCheckpointProcessCheckpoint of process {b.pid}: CUDA_ERROR_OPERATING_SYSTEM',
                      self.daemon.log())

    def test_move(self):
        """The driver is told of each GPU, and the worker hears of it. A move to the GPU where the memory is changes nothing."""
        self.moves = 0
        a, b = self.worker(), self.worker()
        a.tell(NOTE, 100 * MIB)
        a.ask(SYNC)
        for gpu in 1, 0, 0:
            self.pause(a, b)
            for worker in a, b:
                self.becomes(worker, 'released')
            self.assertEqual(self.daemon.ask(f'move all {gpu}')[0], 'ok')
            for worker in a, b:
                if self.moves < 2:
                    worker.answer(SWAP)
                worker.answer(OPEN)
                self.becomes(worker, 'running')
                self.assertEqual(self.at_driver(worker), RUNNING)
            self.moves += 1
        for worker in a, b:
            self.assertEqual(self.moved(worker), 'ab ba ' * 2)

    def test_move_is_refused(self):
        """By the driver, for a GPU that is not there, and before the memory is released: it comes back where it was."""
        a = self.worker()
        a.tell(NOTE, 100 * MIB)
        a.ask(SYNC)
        self.assertIn('not released', self.daemon.ask('move all 1')[0])
        for gpu, refusal in (1, 'refuse-restore'), (7, None):
            self.pause(a)
            self.becomes(a, 'released')
            if refusal:
                self.driver(refusal)
            self.assertEqual(self.daemon.ask(f'move all {gpu}')[0], 'ok')
            self.becomes(a, 'released', 'driver')
            if refusal:
                self.driver_works(refusal)
            self.resume(a)
        self.assertIn('cannot move from device 0 to device 7: there are 2 devices', self.daemon.log())

    def test_move_is_broken_off(self):
        """The program is killed after the memory has moved: the next one ends the move."""
        a = self.worker()
        a.tell(NOTE, 100 * MIB)
        a.ask(SYNC)
        self.pause(a)
        self.becomes(a, 'released')
        self.driver('crash-unlock')
        self.assertEqual(self.daemon.ask('move all 1')[0], 'ok')
        self.becomes(a, 'released', 'driver')
        self.driver_works('crash-unlock')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        a.answer(SWAP)
        a.answer(OPEN)
        self.becomes(a, 'running')
        self.assertEqual(self.moved(a), 'ab ba ')

    def test_the_memory_cannot_come_back(self):
        """The worker stays paused, and its memory where it is, until a resume succeeds."""
        a = self.worker()
        self.pause(a)
        self.becomes(a, 'released')
        self.driver('refuse-restore')
        for _ in range(2):
            self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
            self.becomes(a, 'released', 'driver')
            self.assertEqual(self.at_driver(a), CHECKPOINTED)
        self.driver_works('refuse-restore')
        self.resume(a)

    def test_the_program_is_killed(self):
        """The next program goes on at the step at which the last one was killed. A running worker is not locked."""
        a = self.worker()
        self.driver('crash-checkpoint')
        self.pause(a)
        a.answer(OPEN)
        self.becomes(a, 'running', 'driver')
        self.assertEqual(self.at_driver(a), RUNNING)
        self.driver_works('crash-checkpoint')
        self.pause(a)
        self.becomes(a, 'released')
        self.driver('crash-unlock')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        self.becomes(a, 'released', 'driver')
        self.driver_works('crash-unlock')
        self.resume(a)

    def test_the_worker_is_killed(self):
        a, b = self.worker(), self.worker()
        self.driver('hang-checkpoint')
        self.pause(a, b)
        self.becomes(a, 'releasing')
        os.kill(a.pid, signal.SIGKILL)
        self.assertTrue(wait(lambda: a.pid not in self.daemon.workers()))
        self.driver_works('hang-checkpoint')
        self.becomes(b, 'released')
        self.assertTrue(wait(lambda: not self.helpers(b)))
        self.resume(b)

    def test_a_late_resume(self):
        """A resume arrives while memory is released: the release ends, and the memory comes back."""
        a = self.worker()
        self.driver('hang-checkpoint')
        self.pause(a)
        self.becomes(a, 'releasing')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        self.driver_works('hang-checkpoint')
        a.answer(OPEN)
        self.becomes(a, 'running')
        self.assertEqual(self.at_driver(a), RUNNING)

    def test_an_answer_while_the_driver_works(self):
        """A worker answers without a request: it is killed, and the driver is asked once."""
        a, b = self.worker(), self.worker()
        self.driver('hang-checkpoint')
        self.pause(a, b)
        self.becomes(a, 'releasing')
        a.say(RELEASE, NOT_SUPPORTED)
        self.assertTrue(self.daemon.wait_log('breaks the rules of its gate: it is killed'))
        self.assertTrue(wait(lambda: len(self.helpers(b)) == 1))
        self.driver_works('hang-checkpoint')
        self.becomes(b, 'released')
        self.assertTrue(wait(lambda: not self.helpers(b)))
        self.resume(b)

    def test_too_little_host_memory(self):
        a = self.worker()
        os.close(a.join())
        a.tell(NOTE, 1 << 50)
        a.ask(SYNC)
        self.pause(a)
        a.answer(OPEN)
        self.becomes(a, 'running', 'host-memory')

    def test_a_lie(self):
        """Without the software GPU a worker that has memory does not release it itself."""
        a, b = self.worker(), self.worker()
        a.tell(NOTE, MIB)
        a.ask(SYNC)
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        for worker in a, b:
            worker.answer(CLOSE)
            worker.answer(RELEASE, DONE)
        self.assertTrue(wait(lambda: a.pid not in self.daemon.workers()))
        self.becomes(b, 'released')
        self.assertIn('breaks the rules of its gate: it is killed', self.daemon.log())
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        b.answer(RESTORE)
        b.answer(OPEN)
        self.becomes(b, 'running')


INSTALLED = [os.path.join(prefix, 'libexec/vcuda/vcuda-checkpoint') for prefix in ('/usr', '/usr/local')]


@unittest.skipIf(any(map(os.path.exists, INSTALLED)), 'vcudad finds the program that is installed')
class Alone(puppet.Case):
    """A copy of vcudad in a folder without its other programs."""
    options = ('--backend', 'cuda')

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, vmm, 'VCUDAD', vmm.VCUDAD)
        vmm.VCUDAD = shutil.copy(vmm.VCUDAD, folder.name)
        super().setUp()

    def test_there_is_no_program(self):
        a = self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        a.answer(CLOSE)
        a.answer(RELEASE, NOT_SUPPORTED)
        a.answer(OPEN)
        self.becomes(a, 'running', 'checkpoint')
        self.assertIn('there is no vcuda-checkpoint', self.daemon.log())


class Files(puppet.Case):
    """The worker writes its memory to a file."""
    options = ('--backend', 'cpu')

    def test_the_file_is_new(self):
        a = self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        a.answer(CLOSE)
        file = a.answer(RELEASE)
        self.assertEqual(os.fstat(file).st_nlink, 0)
        self.assertEqual((os.write(file, b'memory'), os.pread(file, 10, 0)), (6, b'memory'))
        os.close(file)
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        a.answer(RESTORE, NO_ROOM)
        self.assertTrue(self.daemon.wait_log('cannot have its device memory back (file)'))
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        a.answer(RESTORE)
        a.answer(OPEN)

    def test_a_pause_during_a_pause(self):
        """Both fail, and the worker is what it was before the first one."""
        a = self.worker()
        for _ in range(2):
            self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        a.answer(CLOSE)
        os.close(a.answer(RELEASE, NO_ROOM))
        a.answer(OPEN)
        process, = self.daemon.status()['process']
        self.assertEqual((process['state'], process['pause-failure']), ('running', 'file'))

    def test_a_new_worker_after_both_have_failed(self):
        a = self.worker()
        for _ in range(2):
            self.assertEqual(self.daemon.ask('pause all 1000')[0], 'ok')
        a.answer(CLOSE, COMMAND_RUNS)
        b = self.worker()
        self.assertEqual([self.state(worker) for worker in (a, b)], [('running', 'command'), ('running', None)])

    def test_a_new_worker_that_does_not_close(self):
        """Workers that were paused before stay paused."""
        a = self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        a.answer(CLOSE)
        os.close(a.answer(RELEASE))
        self.becomes(a, 'released')
        b = self.worker()
        b.answer(CLOSE, DEVICE_BUSY)
        self.becomes(b, 'running', 'device')
        self.becomes(a, 'released')
        c = self.worker()
        c.answer(CLOSE)
        self.becomes(c, 'paused')

    def test_an_answer_after_the_time_of_a_resume(self):
        """A worker that was paused twice opens its gate late: it is not paused again."""
        a = self.worker()
        for _ in range(2):
            self.assertEqual(self.daemon.ask('pause all 0')[0], 'ok')
            if self.state(a)[0] != 'paused':
                a.answer(CLOSE)
                self.becomes(a, 'paused')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        self.assertTrue(wait(lambda: self.state(a)[1] == 'worker'))
        a.answer(OPEN)
        self.assertTrue(wait(lambda: self.state(a)[0] != 'paused'))
        self.assertEqual(self.state(a), ('running', 'worker'))

    def test_one_that_was_resumed_stays_so(self):
        """The pause of all fails; a process that was resumed meanwhile does not take part any more."""
        a, b = self.worker(), self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000')[0], 'ok')
        a.answer(CLOSE)
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        a.answer(OPEN)
        b.answer(CLOSE)
        b.answer(OPEN)
        for worker in a, b:
            self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        for worker in a, b:
            worker.answer(CLOSE)
        os.close(a.answer(RELEASE))
        os.close(b.answer(RELEASE, NO_ROOM))
        a.answer(RESTORE)
        a.answer(OPEN)
        b.answer(OPEN)
        self.assertTrue(wait(lambda: [p['state'] for p in self.daemon.status()['process']] == ['running', 'running']))

    def test_the_driver_is_not_asked(self):
        a = self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        a.answer(CLOSE)
        os.close(a.answer(RELEASE, NOT_SUPPORTED))
        a.answer(OPEN)
        self.assertTrue(self.daemon.wait_log('cannot be paused (driver)'))


if __name__ == '__main__':
    vmm.main()
