"""Ends the process soon after Ctrl-C, whatever it is busy with."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

from convfind.starting import INTERRUPTED

#: Seconds for the program to end by itself: to close files and take back its progress bar.
_GRACE = 0.7


def end_when_interrupted() -> None:
    """Let Ctrl-C end the process even while a compiler or a kernel keeps the main thread.

    Databases are transactional: an end at any moment loses what is not yet recorded, and nothing
    else. A command that handles the signal itself ends as it wishes.
    """
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    try:
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    except ValueError:  # not the main thread, which alone hears of signals
        reading.close()
        writing.close()
        return

    def watch() -> None:
        with reading, writing:
            while number := reading.recv(1):
                is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
                if number[0] == signal.SIGINT and is_ours:
                    time.sleep(_GRACE)
                    os._exit(INTERRUPTED)

    threading.Thread(target=watch, name="convfind-interruption", daemon=True).start()
