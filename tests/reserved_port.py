"""A port to meet at that stays free until somebody listens there, however often."""

import random
import socket

_reservations = []


def reserved_port():
    """A port of loopback that nobody listens on and that no other test gets while this process lives.

    It lies below those that the system gives to outgoing connections: one of those may be taken between
    two listeners. Tests in C++ reserve in the same way (src/transport/port_testing.h).
    """
    for _ in range(1000):
        port = random.randrange(10000, 20000)
        mine = socket.socket(socket.AF_UNIX)
        try:
            mine.bind(f'\0harmonics-test-port-{port}')
            with socket.socket() as probe:
                probe.bind(('127.0.0.1', port))
        except OSError:
            mine.close()
            continue
        _reservations.append(mine)
        return port
    raise RuntimeError('there is no free port from 10000 to 19999')
