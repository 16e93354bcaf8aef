"""`Comparer`: how far results are off, measured on the device that has them.

To read a large result back and compare it with what is right takes a host hundreds of times longer
than a GPU takes to compute it. There, what is right is uploaded once, and only sums come back. They
are those of `checking.accuracy.measure_error`, formed in double precision as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from convfind.checking.accuracy import INFINITE_ERROR, ErrorReport, relative_error, subnormal_step
from convfind.runtime.backend import InvokeArgs
from convfind.solver import asking
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, f32, i64

if TYPE_CHECKING:
    from convfind.checking.fingerprints import Fingerprints
    from convfind.checking.guards import Guarded
    from convfind.checking.reference import Right
    from convfind.device.target import Target
    from convfind.problem.tensor_spec import ElementType
    from convfind.runtime.backend import DeviceBuffer
    from convfind.runtime.session import Session

Array = np.ndarray[Any, Any]

_SOURCE = KernelSource("convfind.checking", "kernels/compare.cl")
_ITEMS = 256
#: Work-groups for each compute unit, enough to wait for memory while others compute.
_GROUPS = 8
_NUMBERS = 4  # that a group finds
_TOO_LARGE = 1.7e308  # what a group says of an error that is not finite


def program_for(target: Target, result: str, right: str, yardstick: str) -> Program:
    """Return the program that compares results on a target, by NumPy's names of the types."""
    most = 1 << (max(target.max_work_group, 1).bit_length() - 1)
    types = {"DTYPE": result.upper(), "RIGHT": right.upper(), "YARDSTICK": yardstick.upper()}
    return Program(_SOURCE, defines=make_defines(types, ITEMS=min(_ITEMS, most)))


@dataclass(frozen=True, slots=True)
class _Copy:
    """An array that the device has too, and the fingerprint of it there."""

    array: Array
    buffer: DeviceBuffer
    mark: int


class Comparer:
    """Compares results of a type with what is right for them, on the device of a session."""

    def __init__(self, session: Session, dtype: ElementType, fingerprints: Fingerprints) -> None:
        self._session = session
        self._device = session.device
        self._dtype = dtype
        self._fingerprints = fingerprints
        self._groups = _GROUPS * max(1, session.target.compute_units)
        self._found = np.empty((self._groups, _NUMBERS), np.float64)
        self._found_there = self._device.allocate(self._found.nbytes)
        self._copies: dict[Right, tuple[_Copy, _Copy]] = {}

    @classmethod
    def on(
        cls, session: Session, dtype: ElementType, fingerprints: Fingerprints | None
    ) -> Comparer | None:
        """Return one for a device that takes fingerprints, and computes in double precision.

        Right results lie there beside what kernels write, so that they have to be watched.
        """
        if fingerprints is None or not session.target.has("fp64"):
            return None
        return cls(session, dtype, fingerprints)

    def expect(self, right: Right) -> None:
        """Have the device know what is right, before anybody's kernel runs.

        Where it cannot, nothing is compared with it there.
        """
        sizes = right.result if right.yardstick is None else right.yardstick
        try:
            copies = self._copy_of(right.result), self._copy_of(sizes)
            result = self._device.allocate(right.result.size * self._dtype.numpy.itemsize)
            self._run(BufferArg("result"), result, copies)
        except asking.FAILURES:
            return
        self._copies[right] = copies

    def compare(self, result: Guarded, right: Right) -> ErrorReport | None:
        """Return how far a result without gaps is off; None where the device cannot say.

        Raises:
            DeviceError: the device has failed.
        """
        copies = self._copies.get(right)
        if copies is None:
            return None
        for copy in copies:  # whoever wrote into it is caught by other checks
            if self._mark_of(copy.buffer, copy.array) != copy.mark:
                self._device.write(copy.buffer, copy.array)
        return self._run(BufferArg("result", result.guard), result.buffer, copies)

    def _run(
        self, result: BufferArg, buffer: DeviceBuffer, copies: tuple[_Copy, _Copy]
    ) -> ErrorReport:
        right, sizes = copies
        types = [copy.array.dtype.name for copy in copies]
        program = program_for(self._session.target, self._dtype.value, *types)
        items: Any = dict(program.defines)["ITEMS"]
        launch = Launch(
            KernelSpec(program, "compare"),
            (
                *(result, BufferArg("right"), BufferArg("yardstick"), BufferArg("found")),
                *(i64(right.array.size), f32(_step_of(self._dtype.numpy))),
            ),
            global_size=(self._groups * items, 1, 1),
            local_size=(items, 1, 1),
        )
        loaded = self._session.kernels.load_or_raise([program])
        args = {"right": right.buffer, "yardstick": sizes.buffer, "found": self._found_there}
        self._device.invoker([launch], loaded)(InvokeArgs(result=buffer, **args))
        self._device.read(self._found_there, self._found)
        most, largest = (float(one) for one in self._found[:, :2].max(axis=0))
        if most >= _TOO_LARGE:
            return INFINITE_ERROR
        error_squares, squares = (float(one) for one in self._found[:, 2:].sum(axis=0))
        rms = relative_error(math.sqrt(error_squares), math.sqrt(squares))
        return ErrorReport(relative_error(most, largest), rms)

    def _copy_of(self, array: Array) -> _Copy:
        memory = np.ascontiguousarray(array)
        buffer = self._device.allocate(memory.nbytes)
        self._device.write(buffer, memory)
        return _Copy(memory, buffer, self._mark_of(buffer, memory))

    def _mark_of(self, buffer: DeviceBuffer, array: Array) -> int:
        return self._fingerprints.of(buffer, array.nbytes)


def _step_of(dtype: np.dtype[Any]) -> float:
    """The subnormal step of a type; that of float64 no single-precision argument holds."""
    return 0.0 if dtype == np.float64 else subnormal_step(dtype)
