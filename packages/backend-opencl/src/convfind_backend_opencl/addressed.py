"""`AddressedSteps`: prepared steps on the host's memory, by its addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any

import pyopencl as cl

from convfind.backend_kit.launching import check_inside
from convfind.errors import LaunchError
from convfind_backend_opencl.eventless import EventlessLaunch
from convfind_backend_opencl.memory import OpenCLBuffer

#: Calls by each of two queues, before the quicker one is taken for good.
_TRIES = 5
#: Seconds beyond which several threads are worth being woken.
_LONG = 5e-4


class AddressedLaunch:
    """A kernel some of whose arguments are addresses."""

    def __init__(
        self,
        name: str,
        kernel: cl.Kernel,
        launch: EventlessLaunch,
        buffers: Sequence[tuple[int, str, int]],
        fixed: Mapping[str, OpenCLBuffer],
        sizes: Mapping[str, int],
    ) -> None:
        """Sort arguments into those that stay and those that calls give.

        Raises:
            LaunchError: an argument is missing, or begins behind its memory.
        """
        self.name, self.enqueue = name, launch.enqueue
        self._kernel, self._pointer = kernel, kernel.int_ptr
        self._staying: list[tuple[int, OpenCLBuffer, int]] = []
        places = {memory: at for at, memory in enumerate(sizes)}
        given: list[tuple[int, int, int]] = []
        for index, memory, offset in buffers:
            if memory in fixed:
                check_inside(name, memory, offset, fixed[memory].block.size)
                self._staying.append((index, fixed[memory], offset))
            elif memory in sizes:
                check_inside(name, memory, offset, sizes[memory])
                given.append((index, places[memory], offset))
            else:
                raise LaunchError(f"the steps use {memory}, which is missing from the arguments")
        #: Index of the argument, which of the call's addresses it is, and bytes behind that.
        self.given = tuple(given)

    def keep(self) -> None:
        """Set the arguments that stay. Raises `pyopencl.Error`."""
        for index, buffer, offset in self._staying:
            self._kernel.set_arg(index, buffer.block.view(offset))

    def point(self, addresses: Sequence[int], before: Sequence[int]) -> None:
        """Set the arguments whose addresses are not those of the call before."""
        for index, place, offset in self.given:
            address = addresses[place]
            if address != before[place]:
                code = _set_pointer()(self._pointer, index, address + offset)
                if code != cl.status_code.SUCCESS:
                    told = f"OpenCL refuses it with error {code}"
                    raise LaunchError(f"argument {index} of {self.name} at an address: {told}")


class AddressedSteps:
    """Launches on the host's memory, which a call sets, enqueues and waits for.

    Kernels of CPU runtimes take any address. So there is no buffer to make, to look up, or to keep,
    which costs the host more than a small convolution takes. Nor need others be woken for that:
    where the runtime can let the calling thread compute, the first calls try both.
    """

    def __init__(
        self,
        launches: Sequence[AddressedLaunch],
        queue: cl.CommandQueue,
        take: Callable[[], bool],
        finish: Callable[[], object],
        local: tuple[cl.CommandQueue, Callable[[], object], Callable[[], object]] | None = None,
    ) -> None:
        """Keep what calls need.

        Args:
            launches: the steps.
            queue: where they are enqueued.
            take: is asked before a call whether another user has set arguments of the kernels since
                it was asked last.
            finish: waits for the queue.
            local: a queue whose commands the calling thread executes, what waits for the other
                queue if need be, and what waits for this one; None where there is none.
        """
        self._launches, self._queue = tuple(launches), queue
        self._take, self._finish, self._local = take, finish, local
        self._none = (0,) * (1 + max((at for one in launches for _, at, _ in one.given), default=0))
        self._before: Sequence[int] = self._none
        #: Whether the calling thread computes alone; None: that is being tried.
        self.is_local = False if local is None else None
        self._times: dict[bool, list[float]] = {False: [], True: []}

    def __call__(self, addresses: Sequence[int]) -> None:
        """Run on memory at these addresses, multiples of 64, and wait. Raises `LaunchError`."""
        if self.is_local is None:
            self._try(addresses)
        elif self.is_local:
            self._run_here(addresses)
        else:
            self._run(addresses, self._queue, self._finish)

    def _try(self, addresses: Sequence[int]) -> None:
        """Run by the queue that has run less often, and choose one when both have often enough."""
        with_others, alone = self._times[False], self._times[True]
        is_local = len(alone) < len(with_others)
        began = perf_counter()
        if is_local:
            self._run_here(addresses)
        else:
            self._run(addresses, self._queue, self._finish)
        self._times[is_local].append(perf_counter() - began)
        if len(alone) == _TRIES:
            self.is_local = median(alone) < median(with_others)
        elif min(with_others) > _LONG and len(with_others) > 1:  # a first run is longer
            self.is_local = False

    def _run_here(self, addresses: Sequence[int]) -> None:
        """Run in the calling thread, after what is under way on the device's queue."""
        assert self._local is not None
        queue, get_idle, finish = self._local
        get_idle()
        self._run(addresses, queue, finish)

    def _run(
        self, addresses: Sequence[int], queue: cl.CommandQueue, finish: Callable[[], object]
    ) -> None:
        launches, before = self._launches, self._before
        if self._take():
            before = self._none
            for one in launches:
                one.keep()
        self._before = self._none  # stays so if an argument is refused half-way
        try:
            for one in launches:
                one.point(addresses, before)
                one.enqueue(queue)
        finally:
            finish()  # whatever happens: the memory may go now
        self._before = addresses


@cache
def _set_pointer() -> Any:
    """`clSetKernelArgSVMPointer` of the loader that pyopencl is linked with."""
    # `PyDLL` holds Python's lock: giving it away takes longer than the call.
    function = ctypes.PyDLL(cl._cl.__file__).clSetKernelArgSVMPointer
    function.argtypes = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p)
    function.restype = ctypes.c_int
    return function


def can_point() -> bool:
    """Return whether kernels' arguments can be set to addresses here."""
    try:
        _set_pointer()
    except (OSError, AttributeError):
        return False
    return True
