"""Implicit GEMM on CPUs by Strassen's algorithm: seven products of halves instead of eight."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from convfind.device.target import Target
from convfind.problem import ConvProblem, Trait
from convfind.solver import Applicability, Reason, Rejected
from convfind.solver.defines import Defines, make_defines
from convfind_solvers_igemm.cpu.conv import FIRST_COSTS, ChannelsFirst, Costs
from convfind_solvers_igemm.cpu.geometry import CpuGeometry

#: Channels and filters of a group; with fewer, sums cost more than a product.
_LEAST = 64
#: Seven products of eight; sums of what is gathered, and of results, are formed for each.
_SHARE_OF_PRODUCTS = 7 / 8
_COSTS = Costs(
    source=FIRST_COSTS.source,
    result=3 * FIRST_COSTS.result,
    gathered=2 * FIRST_COSTS.gathered,
    weight=7 / 4 * FIRST_COSTS.weight,
)
#: A result may be the sum of 12 products of quarters that have the magnitude of 2.
_ERROR_FACTOR = 6.0


class Strassen(ChannelsFirst):
    """Halves of the rows of each image, of the channels and of the filters.

    V. Strassen, "Gaussian elimination is not optimal" (1969). Sums of quarters of the source are
    formed where they are gathered, those of the weights where they are packed, and those of the
    results in a tile: memory sees what it sees of eight products, and 7 / 4 of the packed weights.
    Rounding errors of a result are relative to the largest magnitude among its four: its own, and
    those half an image and half the filters away. No image has a part in another's results.
    """

    form = "strassen"
    domain = ChannelsFirst.domain.without(Trait.FILTER, Trait.STRICT)
    _products: ClassVar[int] = 7
    _costs = _COSTS

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Ask for halves."""
        if isinstance(found := super().applicability(problem, target), Rejected):
            return found
        if any(problem.padding):
            return Rejected(Reason.PADDING, "is for none before an image")
        whole = super()._geometry(problem)
        if whole.is_gradient and max(whole.stride) > 1:
            return Rejected(Reason.STRIDE, "halves of a strided gradient have other phases")
        if (rows := whole.out[_halved_axis(whole)]) % 2:
            return Rejected(Reason.SIZE_LIMIT, f"an odd number of rows or places: {rows}")
        for name, size in (
            ("filters", problem.w_shape[0] // problem.groups),
            ("channels", problem.w_shape[1]),
        ):
            if size % 2 or size < _LEAST:
                return Rejected(
                    Reason.CHANNELS, f"needs an even number from {_LEAST} on of {name}: {size}"
                )
        return found

    def error_bound(self, problem: ConvProblem) -> float:
        """The magnitude of the products that are summed, relative to the formula's."""
        return _ERROR_FACTOR

    def mixes_values(self, problem: ConvProblem) -> bool:
        """Halves of the image, of the channels and of the filters are added before they meet."""
        return True

    def _share(self, shape: CpuGeometry, target: Target) -> float:
        return super()._share(shape, target) / _SHARE_OF_PRODUCTS

    def _geometry(self, problem: ConvProblem) -> CpuGeometry:
        whole = super()._geometry(problem)
        axis = _halved_axis(whole)
        out = tuple(size // 2 if i == axis else size for i, size in enumerate(whole.out))
        return replace(
            whole,
            out=out,
            channels=whole.channels // 2,
            filters=whole.filters // 2,
        )

    def _depth(self, shape: CpuGeometry) -> int:
        return 1024 if shape.channels > 512 else 512  # seven such blocks are held

    def _defines(self, shape: CpuGeometry, target: Target) -> Defines:
        own = dict(super()._defines(shape, target))
        return make_defines(own, DEPTH=self._depth(shape), STRASSEN=True)


def _halved_axis(shape: CpuGeometry) -> int:
    """The first axis that is one."""
    return next((axis for axis in (0, 1) if shape.size[axis] > 1), 2)
