"""All phases of a data gradient at once: each result has its place, and its place has its taps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convfind.problem import ConvProblem
from convfind.types import Direction
from convfind_solvers_igemm.gpu.geometry import GpuGeometry, gpu_geometry

BACKWARD_DATA = Direction.BACKWARD_DATA


def geometry_of(size: int, taps: int, stride: int, padding: int) -> GpuGeometry:
    return gpu_geometry(
        ConvProblem.create(
            BACKWARD_DATA, (1, 3, size), (8, 3, taps), stride=stride, padding=padding
        )
    )


@given(st.integers(12, 40), st.integers(1, 12), st.integers(2, 6), st.integers(0, 6))
def test_every_result_finds_its_taps(size: int, taps: int, stride: int, padding: int) -> None:
    shape = geometry_of(size, taps, stride, padding)
    if shape.stride[2] == 1:  # a single source place
        return
    lead, count, window = (
        axes[2] for axes in (shape.fused_leads, shape.fused_counts, shape.fused_windows)
    )
    last = -(-(padding - lead) // stride)
    for result in range(size):
        place = (result + lead) // stride
        assert place < count
        for tap in range(taps):
            source, rest = divmod(result + padding - tap, stride)
            if rest == 0:
                assert 0 <= place + last - source < window


def test_a_lead_is_taken_where_it_saves_taps() -> None:
    for taps, stride, padding, lead, window in (
        (11, 4, 2, 2, 3),
        (4, 2, 1, 1, 2),
        (5, 3, 1, 1, 2),
        (3, 2, 1, 0, 2),
        (7, 2, 3, 0, 4),
        (4, 4, 0, 0, 1),
    ):
        shape = geometry_of(40, taps, stride, padding)
        assert (shape.fused_leads[2], shape.fused_windows[2]) == (lead, window)
