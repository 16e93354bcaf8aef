"""`WinogradSolver`: what the solvers of the family have in common."""

from __future__ import annotations

from dataclasses import replace

from convfind.kit.blocks import Variant
from convfind.problem import ConvProblem, Trait
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_winograd.applicability import error_bound, error_reach
from convfind_solvers_winograd.cook_toom import Transform


class WinogradSolver(Variant):
    """A convolution by one transform, in one direction and one family of layouts."""

    device: str  # words of the id
    takes_pitch = False  # results of channels last with gaps between pixels, too
    algorithm = Algorithm.WINOGRAD
    is_dynamic = True

    def __init__(
        self,
        transform: Transform,
        direction: Direction | None = None,
        *,
        channels_last: bool | None = None,
        axes: int = 2,
        dtypes: tuple[DataType, ...] = (DataType.FLOAT32,),
    ) -> None:
        """Take the variant, which gives the solver its id; along one axis if ``axes`` is 1.

        ``dtypes`` are the types that the transform's precision is enough for.
        """
        self.transform = transform
        self.axes = axes
        form = "-s2" if transform.spread else "" if axes == 2 else "-1d"
        self.prefix = f"winograd-f{transform.m}x{transform.r}{form}-{self.device}"
        other = Trait.DILATION if transform.spread else Trait.STRIDE
        self.domain = replace(self.domain.without(other), dtypes=dtypes)
        super().__init__(direction, channels_last=channels_last)
        if self.takes_pitch and self.channels_last:
            self.domain = replace(self.domain, traits=self.domain.traits | {Trait.GAPS})

    @property
    def points(self) -> int:
        """Products of a tile."""
        return int(self.transform.n**self.axes)

    def error_bound(self, problem: ConvProblem) -> float:
        """The growth of errors by the transform."""
        return error_bound(self.transform, problem, self.axes)

    def error_reach(self, problem: ConvProblem) -> int:
        """A tile's, whose elements lie as far apart as the taps of the filter."""
        return error_reach(self.transform) * max(problem.dilation)
