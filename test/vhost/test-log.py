# SPDX-License-Identifier: Apache-2.0
"""The log of vcudad, to which hostile workers contribute."""
import fcntl
import os
import signal
import time
import unittest

import vmm
from vmm import Client, Daemon, wait

BURST, RATE, LAST = 64 << 10, 1024, 4096  # of host/daemon/limits/log-lines.h


class Log(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(vhost=False, local=True)
        self.addCleanup(lambda: self.daemon.stop())

    def start(self, misbehaviour):
        client = Client(self.daemon)
        self.addCleanup(client.close)
        pid = client.attach(misbehaviour)
        self.assertTrue(pid)
        return pid

    def test_a_worker_has_a_pipe_of_its_own(self):
        pids = [self.start(0), self.start(0)]
        pipes = {os.readlink(f'/proc/{pid}/fd/{fd}') for pid in pids for fd in (1, 2)}
        self.assertEqual(len(pipes), 2)
        self.assertTrue(all(pipe.startswith('pipe:') for pipe in pipes), pipes)

    def test_hostile_text(self):
        pid = self.start(vmm.WRITES_ESCAPES)
        for line in ('the log cannot be truncated', '\\x1b[2Jescape', 'Grüße', 'vcuda-worker[%d]: vcudad: all is well' % pid):
            self.assertTrue(self.daemon.wait_log(f'\n{line}\n', 60), self.daemon.log())
        self.assertNotIn('\x1b', self.daemon.log())
        self.assertIn('worker %d started' % pid, self.daemon.log())

    def test_a_flood_and_last_words(self):
        began = time.monotonic()
        pid = self.start(vmm.FLOODS_LOG)
        self.assertTrue(self.daemon.wait_log('flood 0000100'))
        other = self.start(vmm.WRITES_ESCAPES)
        self.assertTrue(self.daemon.wait_log('Grüße', 60))
        self.assertIn(pid, self.daemon.workers(), 'the flood ended too early for this test')
        self.assertNotEqual(pid, other)
        end = f'worker {pid} was killed by SIGABRT'
        self.assertTrue(self.daemon.wait_log(end))
        log = self.daemon.log()
        seconds = time.monotonic() - began
        self.assertLess(len(log), BURST + RATE * seconds + LAST + 4096)
        self.assertRegex(log, rf'vcudad: worker {pid} \(guest process {os.getpid()}\) writes more than the log '
                              r'takes: \d+ bytes were dropped')
        self.assertIn('\nthe reason of the crash\nwithout a newline\nvcudad: ' + end, log)

    def test_a_log_that_is_not_read(self):
        self.daemon.stop()
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.daemon = Daemon(vhost=False, local=True, log=writer)
        os.close(writer)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        self.start(vmm.FILLS_LOG)
        self.start(0)

    def test_a_stopped_daemon_does_not_stop_a_worker(self):
        client = Client(self.daemon)
        self.addCleanup(client.close)
        self.assertTrue(wait(self.daemon.workers))
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            pid = client.attach(vmm.FILLS_LOG)
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.assertIn(pid, self.daemon.workers())
        self.assertTrue(self.daemon.wait_log('flood 0000000', 60))


if __name__ == '__main__':
    vmm.main()
