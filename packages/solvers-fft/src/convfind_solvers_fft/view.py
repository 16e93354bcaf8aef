"""`View`: a tensor as the GPU kernels see it."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.kit.blocks import Axes
from convfind.kit.plane_geometry import PlaneGeometry
from convfind.problem import ConvProblem
from convfind.solver.recipe import Memory, ScalarArg, i32, i64
from convfind_solvers_fft.geometry import Tiling


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as groups of channels of images; weights have filters for images.

    All steps are elements from one to the next; those of a window turned round are negative, from
    its last element on.
    """

    memory: str
    images: int
    channels: int  # of a group
    steps: tuple[int, int, int]  # of images, groups, channels
    axes: Axes  # steps of rows and columns
    size: Axes
    tiling: Tiling | None = None  # of weights: a filter is a tile
    padding: Axes = (0, 0)  # before the first element
    extent: Axes = (0, 0)  # of a tile; what lies behind is zero
    at: int = 0  # of the first element

    @property
    def arguments(self) -> tuple[ScalarArg, ...]:
        """VIEW_PARAMETERS of gpu_view.h."""
        above, left = self.padding
        return (
            *map(i64, (self.at, *self.steps)),
            *map(i32, (*self.axes, *self.size, -above, -left, *self.extent, self.channels)),
        )

    def tiles(self, first: int, count: int) -> tuple[ScalarArg, ...]:
        """TILING_PARAMETERS of gpu_view.h, for a part of the tiles."""
        if self.tiling is None:
            return tuple(map(i32, (first, count, 1, 1, 0, 0)))
        return tuple(map(i32, (first, count, *self.tiling.tiles_of_image, *self.tiling.step)))


def view_of_images(
    problem: ConvProblem, memory: str, channels: int, tiling: Tiling, padding: Axes, extent: Axes
) -> View:
    """Return x or y, of so many channels a group."""
    images, _, *size = problem.shape(memory)
    image, channel, row, column = problem.strides(memory)
    steps = (image, channels * channel, channel)
    axes, height_width = (row, column), (size[0], size[1])
    return View(memory, images, channels, steps, axes, height_width, tiling, padding, extent)


def view_of_weights(problem: ConvProblem, shape: PlaneGeometry) -> View:
    """Return w, turned round for the data gradient."""
    group, filters, channel, tap = shape.weight_steps
    rows, columns = shape.window
    sign, last = (-1, (rows * columns - 1) * tap) if shape.flipped else (1, 0)
    return View(
        *(Memory.W, shape.filters, shape.channels, (filters, group, channel)),
        (sign * columns * tap, sign * tap),
        shape.window,
        extent=shape.window,
        at=last,
    )
