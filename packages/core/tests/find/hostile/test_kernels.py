"""Kernels that write what they should not, or are right for a while, are found out and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from convfind.checking.measuring import USUAL
from convfind.device.target import DeviceKind, Target
from convfind.find import search
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.kernel_spec import KernelSpec
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, i64
from convfind.testing import MOCK_TARGET, MockSolver
from convfind.testing.mock_functions import MOCK_FUNCTIONS, mock_convolution, mock_pack
from convfind.testing.solvers import MockPacking
from convfind.testing.tensors import Bytes
from convfind.types import Algorithm

Kernel = Callable[..., None]

pytestmark = pytest.mark.slow

_FAR = 400_000  # bytes behind or before memory


@pytest.fixture(autouse=True, params=["the host", "the device"])
def compared_by(request: pytest.FixtureRequest, bench: Any) -> None:
    """Have memory compared by the host, or by the fingerprints that a GPU takes."""
    if request.param == "the device":
        bench.backend.devices = (replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU),)


class Evil(MockSolver):
    """Runs the kernel ``evil``; by its own account it is the fastest, so it comes first."""

    solver_id = "mock-evil"
    algorithm = Algorithm.DIRECT
    is_dynamic = True
    entry = "evil"
    microseconds = 1

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """More than everybody."""
        return 9.0


class Scratching(Evil):
    """The same with 8 kB of workspace."""

    size = 8192

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Always the same."""
        return self.size

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch, with the workspace behind the tensors."""
        memory = (*(BufferArg(name) for name in "xwy"), BufferArg(Memory.WORKSPACE))
        launch = self._launch(problem, 1, first=(*memory, i64(self.size)))
        return Recipe(self.solver_id, (launch,), workspace=self.size)


def whole(memory: Bytes) -> tuple[Bytes, int]:
    """The buffer that a kernel's argument points into, and where it points."""
    base = cast(Bytes, memory.base)
    return base, memory.__array_interface__["data"][0] - base.__array_interface__["data"][0]


def numbers(memory: Bytes) -> Any:
    """A tensor's bytes as float32."""
    return memory[: memory.size & ~3].view(np.float32)


def nothing_but_zeros(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
    """Right for the data that it leaves behind."""
    x[...] = 0
    w[...] = 0
    y[: 2 * 8 * 36 * 4] = 0


def changes_x(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
    mock_convolution(x, w, y, *rest)
    numbers(x)[0] = 7


def changes_w_first(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
    numbers(w)[0] = 7
    mock_convolution(x, w, y, *rest)


def writes_behind_y(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
    mock_convolution(x, w, y, *rest)
    base, start = whole(y)
    base[start + 2 * 8 * 36 * 4 + _FAR] = 1


def writes_before_y(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
    mock_convolution(x, w, y, *rest)
    base, start = whole(y)
    base[start - _FAR] = 1


@pytest.mark.parametrize(
    ("kernel", "complaint"),
    [
        (nothing_but_zeros, "changed x, which it only reads"),
        (changes_x, "changed x, which it only reads"),
        (changes_w_first, "changed w, which it only reads"),
        (writes_behind_y, "wrote behind the end of y"),
        (writes_before_y, "wrote before the start of y"),
    ],
)
def test_who_writes_elsewhere_is_named(hostile: Any, kernel: Kernel, complaint: str) -> None:
    found = hostile(Evil(), {"evil": kernel}, quarantined=True)
    assert found.rejected["mock-evil"].detail == complaint


@pytest.mark.parametrize(("distance", "side"), [(8192 + _FAR, "behind"), (-_FAR, "before")])
def test_who_writes_far_beside_the_workspace_is_named(
    hostile: Any, distance: int, side: str
) -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, scratch: Bytes, size: Any, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        base, start = whole(scratch)
        base[start + distance] = 1

    found = hostile(Scratching(), {"evil": kernel}, quarantined=True)
    assert f"wrote {side} the" in found.rejected["mock-evil"].detail
    assert found.rejected["mock-evil"].detail.endswith("the workspace")


def test_who_writes_between_the_elements_of_a_result_is_named(hostile: Any) -> None:
    gaps = ConvProblem.forward((2, 4, 5, 6), (6, 4, 3, 3), y_strides=(200, 30, 10, 2))

    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        y[4] = 0  # every other element is none

    found = hostile(Evil(), {"evil": kernel}, of=gaps, quarantined=True)
    assert found.rejected["mock-evil"].detail == "wrote into the gaps of y"


# -- right for a while, or for some data ----------------------------------------------------------


def counting(first_wrong: int, wrong: Kernel) -> Kernel:
    """Compute rightly until the run of this number."""
    runs = [0]

    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        runs[0] += 1
        (wrong if runs[0] >= first_wrong else mock_convolution)(x, w, y, *rest)

    return kernel


def off(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
    """Wrong by little in one element."""
    mock_convolution(x, w, y, *rest)
    numbers(y)[17] += 0.01


def lazy(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
    """Leave what is there, which somebody else has computed."""


@pytest.mark.parametrize("wrong", [off, lazy, changes_x, nothing_but_zeros])
@pytest.mark.parametrize("run", [2, 3, 4, 20])
def test_who_errs_from_some_run_on_is_named(
    hostile: Any, wrong: Kernel, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So many runs there are on any machine: their number ends them, and not the time they take.
    monkeypatch.setattr(search, "USUAL", replace(USUAL, seconds=600.0))
    hostile(Evil(), {"evil": counting(run, wrong)}, quarantined=True)


def test_who_errs_only_when_all_run_in_turns_is_named(hostile: Any) -> None:
    class Equal(Evil):
        """As fast as the fastest honest one, so that they run in turns in the end."""

        microseconds = 30

    others, turns = [0], [0]

    def noting(function: Kernel) -> Kernel:
        def kernel(*operands: Any) -> None:
            others[0] += 1
            function(*operands)

        return kernel

    def evil(*operands: Any) -> None:
        turns[0] += bool(others[0])
        others[0] = 0
        # Somebody else ran before its check, before its samples, and in the final before each.
        (off if turns[0] > 3 else mock_convolution)(*operands)

    kernels = {name: noting(function) for name, function in MOCK_FUNCTIONS.items()}
    hostile(Equal(), {**kernels, "evil": evil}, quarantined=True)
    assert turns[0] > 3


def test_who_is_right_for_the_first_data_only_is_named(hostile: Any) -> None:
    seen: list[bytes] = []

    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        seen.append(bytes(x[:64]))
        (mock_convolution if seen[-1] == seen[0] else off)(x, w, y, *rest)

    found = hostile(Evil(), {"evil": kernel}, quarantined=True)
    assert "right at first, and wrong when it was timed" in found.rejected["mock-evil"].detail


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0])
def test_who_errs_where_a_value_is_whole_is_named(hostile: Any, value: float) -> None:
    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        (off if (numbers(x) == value).any() else mock_convolution)(x, w, y, *rest)

    hostile(Evil(), {"evil": kernel}, quarantined=True)


@pytest.mark.parametrize("run", [1, 2, 10])
def test_sums_that_are_added_to_are_checked_late_as_well(hostile: Any, run: int) -> None:
    adding = ConvProblem.forward((2, 4, 5, 6), (6, 4, 3, 3), beta=0.5)
    hostile(Evil(), {"evil": counting(run, off)}, of=adding, quarantined=True)


@pytest.mark.parametrize("direction", ["backward-data", "backward-weights"])
def test_the_other_directions_are_checked_late_as_well(hostile: Any, direction: str) -> None:
    problem = ConvProblem.forward((2, 4, 6, 6), (8, 4, 3, 3), padding=1).with_direction(direction)

    def wrong(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, w, y, *rest)
        numbers(x if direction == "backward-data" else w)[5] += 0.5

    kernels = {"evil": counting(3, wrong)}
    hostile(Evil(), kernels, of=problem, quarantined=True, honest=("mock-hungry", "mock-dynamic"))


# -- packed weights -------------------------------------------------------------------------------


class Packing(MockPacking):
    """Packs weights, by a kernel and for a kernel of its own."""

    solver_id = "mock-evil-packing"
    entry = "evil"
    microseconds = 1


def test_who_changes_packed_weights_is_named(hostile: Any) -> None:
    def kernel(x: Bytes, packed: Bytes, y: Bytes, *rest: Any) -> None:
        mock_convolution(x, packed, y, *rest)
        packed[:4] = 0

    found = hostile(Packing(), {"evil": kernel}, quarantined=True, constant_weights=True)
    detail = found.rejected["mock-evil-packing"].detail
    assert detail == "changed the packed weights, which it only reads"


@pytest.mark.parametrize("side", ["behind", "before"])
def test_who_packs_weights_beside_their_place_is_named(hostile: Any, side: str) -> None:
    def kernel(w: Bytes, packed: Bytes, size: np.int64) -> None:
        mock_pack(w, packed, size)
        base, start = whole(packed)
        base[start + (int(size) + _FAR if side == "behind" else -_FAR)] = 1

    class Stray(Packing):
        """Packs with a kernel that goes astray."""

        entry = "mock_convolution"

        def solution(
            self,
            problem: ConvProblem,
            target: Target,
            config: Config | None = None,
            workspace_limit: int | None = None,
        ) -> Recipe:
            """Replace the kernel that packs."""
            honest = super().solution(problem, target, config, workspace_limit)
            (pack,) = honest.prepare
            assert isinstance(pack, Launch)
            evil = KernelSpec(pack.kernel.program, "evil")
            return replace(honest, prepare=(replace(pack, kernel=evil),))

    found = hostile(Stray(), {"evil": kernel}, quarantined=True, constant_weights=True)
    assert f"wrote {side} the" in found.rejected["mock-evil-packing"].detail


# -- what one spoils for others -------------------------------------------------------------------


def test_who_finds_tensors_spoiled_is_not_blamed(hostile: Any) -> None:
    """One spoils the data of a timed run that is not its last: nobody sees who it was."""
    runs = [0]

    def kernel(x: Bytes, w: Bytes, y: Bytes, *rest: Any) -> None:
        runs[0] += 1
        mock_convolution(x, w, y, *rest)
        if runs[0] == 3:
            numbers(x)[0] = 7
        if runs[0] >= 8:
            numbers(y)[0] = 7

    hostile(Evil(), {"evil": kernel}, quarantined=True)
