"""`FftSolver`: what all solvers of the family have in common."""

from __future__ import annotations

from math import log2, sqrt

from convfind.kit.blocks import TunableVariant
from convfind.problem import ConvProblem
from convfind.types import Algorithm
from convfind_solvers_fft.codegen import SIZES


class FftSolver(TunableVariant):
    """A float32 convolution in one direction and one family of layouts."""

    algorithm = Algorithm.FFT
    is_dynamic = True

    def error_bound(self, problem: ConvProblem) -> float:
        """Return the factor by which rounding errors may exceed those of plain summation.

        An FFT of n numbers has an RMS error of 0.6 u sqrt(log2 n), relative to the numbers' RMS
        (Schatzman, "Accuracy of the discrete Fourier transform and the fast Fourier transform",
        1996). Three of them, of n = tile squared, and the product's sums have independent errors.
        Where the sum behind a result is long they are small beside those of plain summation; the
        factor is for the shortest.
        """
        return 1.0 + 0.6 * sqrt(3 * 2 * log2(SIZES[-1]))

    def error_reach(self, problem: ConvProblem) -> int:
        """Return how far an error spreads: to whatever shares data with the tile."""
        return SIZES[-1] - 1
