"""The loop of the child in which candidates run: when it ends by itself."""

from __future__ import annotations

import io
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from convfind.errors import DeviceError
from convfind.find.isolation import wire
from convfind.find.isolation.place import Place
from convfind.find.isolation.server import Message, Server
from convfind.plugins.registry import Registry
from convfind.settings import PluginSelection
from convfind.testing import MOCK_TARGET, MockBackend


class Compiler:
    """Compiles one program, once it is let go."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.has_begun = threading.Event()

    def compile(self, program: Any) -> bytes:
        self.has_begun.set()
        self.may_end.wait()
        return b"binary"

    def keep(self, program: Any, binary: bytes) -> None:
        """Nobody asks for it."""


@pytest.fixture
def compiler() -> Compiler:
    return Compiler()


@pytest.fixture
def server(compiler: Compiler) -> Server:
    made = Server(io.BytesIO())
    parts = SimpleNamespace(_kernels=compiler, _compilers=ThreadPoolExecutor(1))
    vars(made).update(vars(parts))
    return made


def test_a_child_that_nobody_asks_for_anything_ends(server: Server) -> None:
    assert server.next_of(queue.SimpleQueue(), 0.01) is None


def test_a_child_does_not_end_while_it_compiles(server: Server, compiler: Compiler) -> None:
    requests: queue.SimpleQueue[Message] = queue.SimpleQueue()
    server.serve((1, "compile", wire.packed(("program",))))
    assert compiler.has_begun.wait()
    answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    waiting = threading.Thread(target=lambda: answers.put(server.next_of(requests, 0.01)))
    waiting.start()
    with pytest.raises(queue.Empty):
        answers.get(timeout=0.3)  # thirty times as long as an idle child stays
    compiler.may_end.set()
    waiting.join()
    assert answers.get() is None


@pytest.mark.parametrize(
    ("field", "value", "is_same"), [("global_memory", 1 << 30, True), ("arch", "x86-32", False)]
)
def test_a_device_with_another_amount_of_memory_is_the_same(
    server: Server, monkeypatch: pytest.MonkeyPatch, field: str, value: Any, is_same: bool
) -> None:
    registry = SimpleNamespace(backends={"mock": MockBackend([MOCK_TARGET])})
    monkeypatch.setattr(Registry, "build", lambda **_: registry)
    target = replace(MOCK_TARGET, **{field: value})
    place = Place("mock", target, PluginSelection(), 1)
    if is_same:
        server.open(place)
    else:
        with pytest.raises(DeviceError, match=f"another device there, with another {field}"):
            server.open(place)
