"""`SizedVariant`: a GPU solver whose program has sizes as arguments, or has them compiled in."""

from __future__ import annotations

from convfind.kit.blocks import TunableVariant
from convfind.problem import ConvProblem
from convfind.solver.defines import DefineValue
from convfind.types import Algorithm, Direction
from convfind_solvers_igemm.gpu.geometry import GpuGeometry, without_patches


class SizedVariant(TunableVariant):
    """Implicit GEMM in one direction and one family of layouts, with one of the two programs."""

    algorithm = Algorithm.IMPLICIT_GEMM

    def __init__(
        self,
        direction: Direction | None = None,
        *,
        channels_last: bool | None = None,
        fixed: bool,
    ) -> None:
        """Take the variant, which gives the solver its id; ``fixed``: sizes are compiled in."""
        self.fixed = fixed
        self.is_dynamic = not fixed
        if fixed:
            self.form = f"{self.form}-fixed".strip("-")
        super().__init__(direction, channels_last=channels_last)

    def _seen(self, problem: ConvProblem) -> ConvProblem:
        """The problem as the kernel sees it: a dynamic program is that of problems of any size."""
        return without_patches(problem) if self.fixed else problem

    def _compiled_in(self, shape: GpuGeometry) -> dict[str, DefineValue]:
        """The macros of the sizes, if these are no arguments."""
        return {"FIXED": True, **shape.sizes} if self.fixed else {}
