"""Machines that are network namespaces of this one, with a cable of a certain rate and delay between every two.

Rates are the kernel's token bucket (tc tbf) at both ends. A delay is netem's where the kernel has it; where it has
not, the cable is a pair of tun devices and a process that hands every packet on so much later.
"""

import os
import shutil
import subprocess
import sys

ADDRESS = '10.230.77.{}'
# What a cable that was idle lets through at once: a few milliseconds of its rate, no whole tensor.
BURSTS = {'1gbit': '256kb', '100mbit': '32kb', '50mbit': '32kb'}
CABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'delayed_cable.py')


class NotPermitted(Exception):
    """Namespaces, or what they need, cannot be had here."""


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise NotPermitted(f"{' '.join(words)}: {done.stderr.strip()}")


class Machines:
    """Used as a context: namespaces and cables go with it."""

    def __init__(self, count, rate, delay_ms):
        self.rate, self.delay_ms = rate, delay_ms
        self.mark = f'{os.getpid() % 100000}'
        self.names = [f'hm{self.mark}-{i}' for i in range(count)]
        self.addresses = [ADDRESS.format(i + 1) for i in range(count)]
        self.cables = []

    def __enter__(self):
        if shutil.which('ip') is None or shutil.which('tc') is None:
            raise NotPermitted('the programs ip and tc (iproute2) are not installed')
        try:
            for name, address in zip(self.names, self.addresses):
                call('ip', 'netns', 'add', name)
                call('ip', '-n', name, 'link', 'set', 'lo', 'up')
                call('ip', '-n', name, 'address', 'add', f'{address}/32', 'dev', 'lo')
            for i in range(len(self.names)):
                for j in range(i + 1, len(self.names)):
                    self.connect(i, j)
        except NotPermitted:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for cable in self.cables:
            cable.kill()
            cable.wait(timeout=20)
        self.cables = []
        for name in self.names:
            subprocess.run(['ip', 'netns', 'del', name], capture_output=True, timeout=20, check=False)

    def connect(self, i, j):
        ends = [f'c{self.mark}{i}{j}', f'c{self.mark}{j}{i}']
        if self.delay_ms == 0 or has_netem():
            call('ip', 'link', 'add', ends[0], 'netns', self.names[i], 'type', 'veth', 'peer', 'name', ends[1],
                 'netns', self.names[j])
        else:
            self.lay_delayed_cable(i, j, ends)
        for own, other, end in ((i, j, ends[0]), (j, i, ends[1])):
            call('ip', '-n', self.names[own], 'link', 'set', end, 'up')
            self.limit(self.names[own], end)
            call('ip', '-n', self.names[own], 'route', 'add', self.addresses[other] + '/32', 'dev', end, 'src',
                 self.addresses[own])

    def limit(self, name, end):
        bucket = ('tbf', 'rate', self.rate, 'burst', BURSTS[self.rate], 'latency', '200ms')
        tc = ('ip', 'netns', 'exec', name, 'tc', 'qdisc', 'add', 'dev', end)
        if self.delay_ms > 0 and has_netem():
            call(*tc, 'root', 'handle', '1:', 'netem', 'delay', f'{self.delay_ms}ms', 'limit', '10000')
            call(*tc, 'parent', '1:', 'handle', '2:', *bucket)
        else:
            call(*tc, 'root', *bucket)

    def lay_delayed_cable(self, i, j, ends):
        cable = subprocess.Popen([sys.executable, CABLE, str(self.delay_ms), self.names[i], ends[0], self.names[j],
                                  ends[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.cables.append(cable)
        if cable.stdout.readline().strip() != 'laid':
            raise NotPermitted(f'a delayed cable cannot be laid: {cable.stderr.read().strip()}')

    def inside(self, i):
        """The words that start a program on machine i."""
        return ['ip', 'netns', 'exec', self.names[i]]


def has_netem():
    name = f'hmtry{os.getpid() % 100000}'
    try:
        call('ip', 'netns', 'add', name)
        call('ip', 'netns', 'exec', name, 'tc', 'qdisc', 'add', 'dev', 'lo', 'root', 'netem', 'delay', '1ms')
    except NotPermitted:
        return False
    finally:
        subprocess.run(['ip', 'netns', 'del', name], capture_output=True, timeout=20, check=False)
    return True
