"""FFT convolution on CPUs with matrix products of spectra: what all directions share."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.register_tile import COMPLEX
from convfind.problem import ConvProblem
from convfind.solver.applicability import Applicability
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, Program
from convfind.solver.search_space import Parameter
from convfind_solvers_fft.applicability import judge_dense
from convfind_solvers_fft.cpu import CpuSolver

#: Points lie so many floats more apart than they need: a cache line.
SKEW = 16
#: The share of the peak that transforms to and from memory reach.
TRANSFORM_SHARE = 0.14
_DEFAULT_CHUNK = 64
_CHUNK = Parameter("chunk_mib", (4, 16, _DEFAULT_CHUNK, 256), "most memory of a part of the tiles")


class ProductsSolver(CpuSolver):
    """Float32, in one family of layouts; the tiles in parts of so much memory."""

    kind = "cpu"
    file: ClassVar[str]  # of the kernels
    own_parameters: ClassVar[tuple[Parameter, ...]] = (_CHUNK,)
    own_defaults = MappingProxyType({_CHUNK.name: _DEFAULT_CHUNK})

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take groups of some channels and filters, else as `CpuSolver`."""
        return judge_dense(problem) and super().applicability(problem, target)

    def _program(self, target: Target, tile: int, epilogue: Epilogue) -> Program:
        rows, vectors = COMPLEX.of(target)
        return Program(
            KernelSource("convfind_solvers_fft", f"kernels/{self.file}"),
            KernelLanguage.OPENCL_C,
            make_defines(
                epilogue.defines,
                TILE=tile,
                CHANNELS_LAST=self.channels_last,
                ROWS=rows,
                VECTORS=vectors,
            ),
        )
