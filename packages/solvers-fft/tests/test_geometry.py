"""Tiles give the convolution that they cover, computed here with NumPy's transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convfind.checking.reference import reference_convolution
from convfind.kit.plane_geometry import plane_geometry
from convfind.problem import ConvProblem
from convfind.types import Direction
from convfind_solvers_fft.codegen import SIZES
from convfind_solvers_fft.geometry import Tiling, useful_tilings


def _cut(image: Any, top: int, left: int, rows: int, columns: int) -> Any:
    """Rows x columns of an image from anywhere on, zero outside of it."""
    piece = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            if 0 <= top + i < image.shape[0] and 0 <= left + j < image.shape[1]:
                piece[i, j] = image[top + i, left + j]
    return piece


def _by_tiles(tiling: Tiling, source: Any, window: Any) -> Any:
    """Correlate an image with a window on the circles that tiles are."""
    shape, side = tiling.shape, tiling.tile
    result = np.zeros(shape.out)
    spectrum = np.conj(np.fft.fft2(_cut(window, 0, 0, side, side)))
    (down, right), (above, left) = tiling.step, shape.padding
    for top in range(0, shape.out[0], down):
        for first in range(0, shape.out[1], right):
            tile = _cut(source, top - above, first - left, side, side)
            values = np.fft.ifft2(np.fft.fft2(tile) * spectrum).real
            part = result[top : top + down, first : first + right]
            part[...] = values[: part.shape[0], : part.shape[1]]
    return result


sizes = st.integers(1, 24)
paddings = st.tuples(st.integers(0, 12), st.integers(0, 12))


@given(
    st.tuples(sizes, sizes),
    st.tuples(sizes, sizes),
    st.tuples(paddings, paddings),
    st.sampled_from([Direction.FORWARD, Direction.BACKWARD_DATA]),
)
def test_tiles_cover_the_result(image: Any, window: Any, padding: Any, direction: Any) -> None:
    for size, taps, (before, behind) in zip(image, window, padding, strict=True):
        assume(size + before + behind >= taps)
    problem = ConvProblem.create(direction, (1, 1, *image), (1, 1, *window), padding=padding)
    shape = plane_geometry(problem)
    generator = np.random.default_rng(0)
    source, weights = generator.standard_normal(shape.size), generator.standard_normal(window)
    arrays = {shape.source: source, "w": weights}
    given_ = (arrays[name][None, None].astype(np.float32) for name in direction.reads)
    expected = reference_convolution(problem, *given_)[0, 0]
    turned = weights[::-1, ::-1] if shape.flipped else weights
    for tiling in useful_tilings(problem, SIZES):
        result = _by_tiles(tiling, source, turned)
        np.testing.assert_allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("image", "window", "tiles"),
    [
        (28, 31, (48, 64)),  # 15 zeros on either side: 58 with both, 43 with one
        (14, 27, (32, 48, 64)),
        (7, 13, (16, 24, 32, 48, 64)),
        (56, 31, (48, 64)),  # tiles of 18 and 34 results
        (99, 62, ()),
    ],
)
def test_padding_is_needed_once(image: int, window: int, tiles: tuple[int, ...]) -> None:
    problem = ConvProblem.forward(
        x=(1, 1, image, image), w=(1, 1, window, window), padding=window // 2
    )
    assert tuple(tiling.tile for tiling in useful_tilings(problem, SIZES)) == tiles
