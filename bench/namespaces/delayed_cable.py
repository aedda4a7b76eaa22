#!/usr/bin/env python3
"""A cable between two network namespaces that hands every packet on a fixed time later.

usage: delayed_cable.py DELAY_MS NAMESPACE DEVICE NAMESPACE DEVICE

Makes a tun device in each namespace, says "laid", and forwards until it is killed. At most so many packets are on
the way at once; more are dropped, as a cable's end would.
"""

import collections
import ctypes
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF = 0x400454ca
IFF_TUN, IFF_NO_PI = 1, 0x1000
CLONE_NEWNET = 0x40000000
MTU = 9000
MOST_ON_THE_WAY = 20000


def enter(namespace):
    descriptor = os.open(f'/run/netns/{namespace}', os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), 'setns')
    os.close(descriptor)


def open_tun(namespace, device):
    enter(namespace)
    tun = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack('16sH', device.encode(), IFF_TUN | IFF_NO_PI))
    if os.system(f'ip link set {device} mtu {MTU} txqueuelen 1000') != 0:
        raise OSError(f'{device} has no MTU of {MTU}')
    return tun


def take(tun, way, due):
    """Everything that waits at one end goes on its way."""
    while len(way) < MOST_ON_THE_WAY:
        try:
            way.append((due, os.read(tun, MTU + 100)))
        except BlockingIOError:
            return


def forward(tuns, delay):
    ways = [collections.deque(), collections.deque()]
    while True:
        now = time.monotonic()
        for way, to in zip(ways, reversed(tuns)):
            while way and way[0][0] <= now:
                try:
                    os.write(to, way.popleft()[1])
                except OSError:
                    pass  # its end is full or down: dropped
        nearest = min((way[0][0] for way in ways if way), default=now + 1)
        ready, _, _ = select.select(tuns, [], [], max(0, nearest - time.monotonic()))
        due = time.monotonic() + delay
        for tun, way in zip(tuns, ways):
            if tun in ready:
                take(tun, way, due)


def main(delay_ms, *ends):
    tuns = [open_tun(ends[0], ends[1]), open_tun(ends[2], ends[3])]
    print('laid', flush=True)
    forward(tuns, float(delay_ms) / 1e3)


if __name__ == '__main__':
    main(*sys.argv[1:])
