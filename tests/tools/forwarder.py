# SPDX-License-Identifier: Apache-2.0
"""A TCP forwarder on loopback whose connections a test cuts."""
import os
import selectors
import socket
import struct
import threading


class Forwarder:
    """Carries bytes between its clients and `port`. All connections are cut in the middle of an
    answer when more bytes of answers than the first of `cut_after` have come in all, by RST and by
    FIN in turn; and when a client's request begins with the first of `cut_at`; what has been cut is
    taken out of these lists. One thread, so that an end that is closed is closed at once."""

    def __init__(self, port):
        self.server = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cut_after, self.cut_at = [], []
        self.carried = self.cuts = 0
        self.peers, self.clients = {}, set()
        self.end, self.wake = os.pipe()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.end, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == self.end:
                    return
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj in self.peers:
                    self._carry(key.fileobj, self.peers[key.fileobj])

    def _accept(self):
        client = self.listener.accept()[0]
        try:
            server = socket.create_connection(self.server)
        except OSError:  # nobody listens there
            client.close()
            return
        self.clients.add(client)
        for end, peer in ((client, server), (server, client)):
            self.peers[end] = peer
            self.selector.register(end, selectors.EVENT_READ)

    def _is_cut(self, source, data):
        if source in self.clients:
            if not self.cut_at or not data.startswith(self.cut_at[0]):
                return False
            self.cut_at.pop(0)
            return True
        self.carried += len(data)
        if not self.cut_after or self.carried <= self.cut_after[0]:
            return False
        self.cut_after.pop(0)
        return True

    def _carry(self, source, sink):
        try:
            data = source.recv(1 << 16)
            is_cut = self._is_cut(source, data)
            sink.sendall(data[:len(data) // 2] if is_cut else data)
        except OSError:
            data, is_cut = b"", False
        if is_cut:
            self._cut()
        elif not data:
            self._close(source)
            self._close(sink)

    def _close(self, end):
        self.selector.unregister(end)
        self.clients.discard(end)
        del self.peers[end]
        end.close()

    def _cut(self):
        self.cuts += 1
        for end in list(self.peers):
            if self.cuts % 2:  # RST
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._close(end)

    def close(self):
        """Nobody listens there any more, and what was open is cut."""
        os.write(self.wake, b"x")
        self.thread.join()
        self._cut()
        self.listener.close()
        self.selector.close()
        os.close(self.end)
        os.close(self.wake)
