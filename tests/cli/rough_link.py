"""A link that is mistreated: forwards connections to a port of this machine, and cuts, stalls and damages them."""

import socket
import struct
import threading
import time

KINDS = ('cut', 'stall', 'flip', 'drop')
# What both ends say before rows flow; damage to a first greeting means a stranger, not a bad link.
GREETING_BYTES = {'tcp': 3000, 'grpc': 9000, 'flight': 16000}
LONG_STALL_S = 3.5  # longer than the silence after which a link counts as cut


class RoughLink:
    """Every connection gets a fault after some bytes, and the next one some bytes later, until `most` were dealt."""

    def __init__(self, target_port, transport, chance, most):
        self.target_port = target_port
        self.chance = chance
        self.most = most
        self.dealt = []
        self.greeting = GREETING_BYTES[transport]
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.sockets = set()
        self.listening = socket.create_server(('127.0.0.1', 0))
        self.port = self.listening.getsockname()[1]
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def close(self):
        self.closing.set()
        with self.lock:
            open_sockets = [self.listening, *self.sockets]
            self.sockets = None
        for one in open_sockets:
            shut(one)
        for thread in self.threads:
            thread.join()

    def _accept(self):
        first = True
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(('127.0.0.1', self.target_port), timeout=5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            with self.lock:
                if self.sockets is None:
                    near.close()
                    far.close()
                    return
                self.sockets |= {near, far}
                link = Link(self, near, far, self.greeting if first else 0)
            first = False
            for ends in ((near, far), (far, near)):
                thread = threading.Thread(target=link.pump, args=ends)
                self.threads.append(thread)
                thread.start()

    def next_fault(self):
        """How many bytes until the next fault, and what it is."""
        return self.chance.randint(1, 4000), self.chance.choice(KINDS)


class Link:
    def __init__(self, rough, near, far, gentle_bytes):
        self.rough = rough
        self.ends = (near, far)
        self.left, self.kind = rough.next_fault()
        self.left += gentle_bytes
        self.held_until = 0.0

    def pump(self, source, target):
        try:
            while data := source.recv(16384):
                data, cuts = self._mistreat(data)
                self.rough.closing.wait(max(0.0, self.held_until - time.monotonic()))
                target.sendall(data)
                if cuts:
                    break
        except OSError:
            pass
        for end in self.ends:
            shut(end)

    def _mistreat(self, data):
        rough = self.rough
        with rough.lock:
            self.left -= len(data)
            if self.left > 0 or len(rough.dealt) >= rough.most:
                return data, False
            kind = self.kind
            rough.dealt.append(kind)
            self.left, self.kind = rough.next_fault()
            if kind == 'stall':
                short = rough.chance.random() < 0.9
                self.held_until = time.monotonic() + (rough.chance.uniform(0.05, 0.4) if short else LONG_STALL_S)
                return data, False
            at = rough.chance.randrange(len(data))
            if kind == 'flip':
                return data[:at] + bytes([data[at] ^ (1 << rough.chance.randrange(8))]) + data[at + 1:], False
            if kind == 'drop':
                return data[:-min(len(data), rough.chance.randint(1, 64))], False
            if rough.chance.random() < 0.5:  # a reset in place of an orderly end
                for end in self.ends:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            return data[:at], True


def shut(end):
    """Wakes whoever reads it."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
