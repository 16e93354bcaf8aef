"""`BoundSteps`: prepared steps that are bound to buffers, again only where buffers change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from convfind.backend_kit.memory import KeptBuffer
from convfind.errors import LaunchError
from convfind.runtime.backend import InvokeArgs
from convfind.solver.recipe import Fill, Step, memory_names


class ReadyStep(Protocol):
    """A step that is ready to run when it knows its buffers."""

    @property
    def name(self) -> str:
        """The name in messages."""

    def bind(self, buffers: Mapping[str, Any]) -> None:
        """Note the buffers, without keeping them alive. Raises `LaunchError` if they are short."""


StepT = TypeVar("StepT", bound=ReadyStep)


class BoundSteps(Generic[StepT]):
    """Steps prepared for a device, and the buffers that they are bound to.

    An invoker calls `bind` in each call, which compares the buffers with those of the last call.
    """

    def __init__(
        self,
        backend: str,
        buffer_type: type[KeptBuffer[Any]],
        steps: Sequence[Step],
        ready: Callable[[Step], StepT],
    ) -> None:
        """Prepare each step by ``ready``; empty fills are left out. Raises `LaunchError`."""
        self._backend = backend
        self._buffer_type = buffer_type
        steps = [step for step in steps if not (isinstance(step, Fill) and step.size == 0)]
        self._steps = [ready(step) for step in steps]
        self._named = [frozenset(memory_names([step])) for step in steps]  # by each step
        self._memories = memory_names(steps)
        # One C call that gives the serial numbers of all buffers in use. Numbers, because holding
        # on to the last call's buffers would keep them from their pool and arrays from the heap.
        self._serials: Callable[[InvokeArgs], Any] = (
            attrgetter(*(f"{memory}.serial" for memory in self._memories))
            if self._memories
            else lambda args: None
        )
        self._bound: Any = None

    def bind(self, args: InvokeArgs) -> None:
        """Bind the steps whose buffers are not those of the last call.

        A network has many steps, and few of its buffers change from run to run.

        Raises:
            LaunchError: a buffer is missing, of another backend, or too small.
        """
        try:
            serials = self._serials(args)
        except AttributeError as exc:
            raise self._wrong_memory(args) from exc
        if serials == self._bound:
            return
        changed = self._changed(serials)
        self._bound = None  # stays so if an argument is refused half-way
        buffers = {memory: getattr(args, memory) for memory in self._memories}
        for buffer in buffers.values():
            if not isinstance(buffer, self._buffer_type):
                raise self._wrong_memory(args)
        self.rebind(buffers, changed)
        self._bound = serials

    def rebind(self, buffers: Mapping[str, Any], changed: Set[str]) -> None:
        """Bind every step that uses changed memory. Anything captured before is void."""
        for step, named in zip(self._steps, self._named, strict=True):
            if not changed.isdisjoint(named):
                step.bind(buffers)

    def _changed(self, serials: Any) -> Set[str]:
        """Return the names of the memory that is not that of the last call."""
        if self._bound is None or len(self._memories) == 1:
            return frozenset(self._memories)
        pairs = zip(self._memories, serials, self._bound, strict=True)
        return {memory for memory, now, before in pairs if now != before}

    @property
    def names(self) -> str:
        """The names of the steps in messages, each once."""
        return ", ".join(dict.fromkeys(step.name for step in self._steps))

    def _wrong_memory(self, args: InvokeArgs) -> LaunchError:
        for memory in self._memories:
            buffer = getattr(args, memory, None)
            if buffer is None:
                return LaunchError(f"the steps use {memory}, which is missing from the arguments")
            if not isinstance(buffer, self._buffer_type):
                kind = type(buffer).__name__
                return LaunchError(
                    f"{memory} is a {kind}, not a buffer of the {self._backend} backend"
                )
        return LaunchError(f"arguments are {type(args).__name__}, not InvokeArgs")
