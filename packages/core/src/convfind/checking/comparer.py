"""`Comparer`: how far results are off, measured on the device that has them.

To read a large result back and compare it with what is right takes a host hundreds of times longer
than a GPU takes to compute it. There, what is right is uploaded once, or stays where a last resort
has computed it, and only sums come back. They are those of `checking.accuracy.measure_error`,
formed in double precision as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from convfind.checking.accuracy import INFINITE_ERROR, ErrorReport, relative_error, subnormal_step
from convfind.checking.fingerprints import groups_on, items_on
from convfind.checking.held import Held
from convfind.log import logger
from convfind.runtime.backend import InvokeArgs
from convfind.solver import asking
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, ScalarArg, f32, i64
from convfind.types import DataType

if TYPE_CHECKING:
    from convfind.checking.fingerprints import Fingerprints
    from convfind.checking.guards import Guarded
    from convfind.checking.reference import Right
    from convfind.device.target import Target
    from convfind.problem import Activation
    from convfind.problem.tensor_spec import TensorSpec
    from convfind.runtime.backend import DeviceBuffer
    from convfind.runtime.session import Session

Array = np.ndarray[Any, Any]

_SOURCE = KernelSource("convfind.checking", "kernels/compare.cl")
_NUMBERS = 4  # that a group finds
#: The share of the device's memory that right results take at most; candidates need the rest.
_SHARE = 16
_TOO_LARGE = 1.7e308  # what a group says of an error that is not finite


def program_for(
    target: Target, result: str, right: str, yardstick: str, activation: Activation | None = None
) -> Program:
    """Return the program that compares results on a target, by NumPy's names of the types."""
    types = {"DTYPE": result.upper(), "RIGHT": right.upper(), "YARDSTICK": yardstick.upper()}
    if activation is not None:
        types["CF_ACTIVATION"] = activation.kind.macro
    return Program(_SOURCE, defines=make_defines(types, ITEMS=items_on(target)))


def knows(activation: Activation | None) -> bool:
    """Return whether what errors are relative to behind an activation is known beforehand."""
    return activation is None or math.isfinite(activation.largest_slope(math.inf))


@dataclass(frozen=True, slots=True)
class _Place:
    """Memory of the device with numbers of a type, by NumPy's name, from an offset on.

    An activation is still to be applied to them.
    """

    buffer: DeviceBuffer
    dtype: str
    offset: int = 0
    activation: Activation | None = None


@dataclass(frozen=True, slots=True)
class _Copy:
    """An array that the device has too, and the fingerprint of it there."""

    array: Array
    place: _Place
    mark: int


class Comparer:
    """Compares results without gaps with what is right for them, on the device of a session."""

    def __init__(self, session: Session, operand: TensorSpec, fingerprints: Fingerprints) -> None:
        self._session = session
        self._device = session.device
        self._operand = operand
        self._dtype = operand.dtype
        self._fingerprints = fingerprints
        self._items, self._groups = items_on(session.target), groups_on(session.target)
        self._found = np.empty((self._groups, _NUMBERS), np.float64)
        self._found_there = self._device.allocate(self._found.nbytes)
        self._copies: dict[Right, tuple[_Copy, ...]] = {}
        self._held: set[Held] = set()

    @classmethod
    def on(
        cls, session: Session, operand: TensorSpec, fingerprints: Fingerprints | None
    ) -> Comparer | None:
        """Return one for a device that takes fingerprints, and computes in double precision.

        Right results lie there beside what kernels write, so that they have to be watched.
        """
        if fingerprints is None or not session.target.has("fp64"):
            return None
        return cls(session, operand, fingerprints)

    def holds(self, nbytes: int) -> bool:
        """Return whether the device's memory has room for right results of so many bytes."""
        return not nbytes > self._session.target.global_memory // _SHARE > 0

    def expect(self, right: Right | Held) -> None:
        """Have the device know what is right, before anybody's kernel runs.

        Where it cannot, or has little memory, nothing is compared with it there.
        """
        try:
            if isinstance(right, Held):
                self._try(right.operand.elements, (_place_of(right),))
                self._held.add(right)
                return
            arrays = [one for one in (right.result, right.yardstick) if one is not None]
            if self.holds(sum(one.nbytes for one in arrays)):
                copies = tuple(self._copy_of(one) for one in arrays)
                self._try(right.result.size, tuple(copy.place for copy in copies))
                self._copies[right] = copies
        except asking.FAILURES as error:
            logger.info("the host compares results, as the device fails: %s", error)

    def compare(self, result: Guarded, right: Right | Held) -> ErrorReport | None:
        """Return how far a result without gaps is off; None where the device cannot say.

        Raises:
            DeviceError: the device has failed.
        """
        place = BufferArg("result", result.guard)
        # Whoever wrote into what is right is caught by other checks.
        if isinstance(right, Held):
            if right not in self._held or not right.is_intact:
                return None
            return self._run(place, result.buffer, right.operand.elements, (_place_of(right),))
        copies = self._copies.get(right)
        if copies is None:
            return None
        for copy in copies:
            if self._mark_of(copy.place.buffer, copy.array) != copy.mark:
                self._device.write(copy.place.buffer, copy.array)
        places = tuple(copy.place for copy in copies)
        return self._run(place, result.buffer, right.result.size, places)

    def _try(self, count: int, places: tuple[_Place, ...]) -> None:
        """Compare anything once. Raises what is a device's failure."""
        result = self._device.allocate(count * self._dtype.numpy.itemsize)
        self._run(BufferArg("result"), result, count, places)

    def _run(
        self, result: BufferArg, buffer: DeviceBuffer, count: int, places: tuple[_Place, ...]
    ) -> ErrorReport:
        right, sizes = places[0], places[-1]  # of a result without a yardstick, the same
        activation = right.activation
        program = program_for(
            self._session.target, self._dtype.value, right.dtype, sizes.dtype, activation
        )
        scaled = (1.0, 0.0)
        if activation is not None:
            scaled = activation.largest_slope(math.inf), abs(float(activation(np.float64(0.0))))
        numbers = (*scaled, *(() if activation is None else activation.numbers))
        compared = BufferArg("right", right.offset), BufferArg("yardstick", sizes.offset)
        launch = Launch(
            KernelSpec(program, "compare"),
            (
                *(result, *compared, BufferArg("found"), i64(count)),
                f32(_step_of(self._dtype.numpy)),
                *(ScalarArg(number, DataType.FLOAT64) for number in numbers),
            ),
            global_size=(self._groups * self._items, 1, 1),
            local_size=(self._items, 1, 1),
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
        memory = self._as_in_memory(array)
        buffer = self._device.allocate(memory.nbytes)
        self._device.write(buffer, memory)
        place = _Place(buffer, array.dtype.name)
        return _Copy(memory, place, self._mark_of(buffer, memory))

    def _as_in_memory(self, array: Array) -> Array:
        """Return numbers in the order of the result's memory, which strides may permute."""
        steps = self._operand.in_memory(self._operand.strides)
        order = sorted(range(array.ndim), key=lambda axis: -steps[axis])
        return np.ascontiguousarray(array.transpose(order))

    def _mark_of(self, buffer: DeviceBuffer, array: Array) -> int:
        return self._fingerprints.of(buffer, array.nbytes)


def _place_of(held: Held) -> _Place:
    dtype = held.operand.dtype.numpy.name
    return _Place(held.memory.buffer, dtype, held.memory.guard, held.activation)


def _step_of(dtype: np.dtype[Any]) -> float:
    """The subnormal step of a type; that of float64 no single-precision argument holds."""
    return 0.0 if dtype == np.float64 else subnormal_step(dtype)
