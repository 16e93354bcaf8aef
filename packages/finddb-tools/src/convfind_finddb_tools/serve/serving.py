"""The socket on which databases are served."""

from __future__ import annotations

import socket

from convfind.errors import FindDbError


def free_socket(port: int) -> socket.socket:
    """Return a socket that listens on the loopback device; port 0 takes a free one.

    Raises:
        FindDbError: another program has the port.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # at once: whoever reads the address may come before the server
    except OSError as exc:
        listening.close()
        raise FindDbError(f"port {port} cannot be used: {exc.strerror}; give --port 0") from exc
    return listening
