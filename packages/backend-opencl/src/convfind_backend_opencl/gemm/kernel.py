"""`GemmKernel`: what the solvers ask of a GEMM kernel, whichever device it is for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.gemm_lowering.product import Gemm, u64
from convfind.kit.sizes import round_up
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, i32
from convfind.solver.search_space import SearchSpace

PACKAGE = "convfind_backend_opencl"
_SUM_GROUP = 64


class GemmKernel(ABC):
    """A GEMM kernel; its config holds the kernel's macros."""

    #: K is not split into parts shorter than this.
    shortest: ClassVar[int]

    @abstractmethod
    def search_space(self, target: Target) -> SearchSpace:
        """The configs that the device can run."""

    @abstractmethod
    def default_config(self, gemm: Gemm, target: Target) -> Config:
        """The config that a product gets without tuning."""

    @abstractmethod
    def index(self, problem: ConvProblem, target: Target, gemm: Gemm, column_bytes: int) -> float:
        """The throughput index of a problem's product, with so many bytes of columns."""

    @abstractmethod
    def launch(self, gemm: Gemm, target: Target, config: Config) -> Launch:
        """The launch that computes a product."""

    @abstractmethod
    def missing_parts(self, gemm: Gemm, target: Target, config: Config) -> int:
        """Into how many parts work on one output would have to be split to fill the device."""

    @abstractmethod
    def program(self, gemm: Gemm, config: Config) -> Program:
        """The program with the kernel and `gemm_sum`."""

    def sum_launch(
        self, gemm: Gemm, target: Target, config: Config, parts: int, beta: float
    ) -> Launch:
        """The launch that sums partial sums at the start of the workspace into the weights."""
        rows, columns = gemm.m * gemm.inner, gemm.n
        group = min(_SUM_GROUP, target.max_work_group)
        return Launch(
            KernelSpec(self.program(gemm, config), "gemm_sum"),
            (
                *(i32(rows), i32(columns), i32(parts), *Epilogue(beta=beta).arguments),
                *(
                    BufferArg(Memory.WORKSPACE),
                    u64(0),
                    u64(rows * columns),
                    BufferArg(Memory.W),
                    u64(0),
                    u64(columns),
                ),
            ),
            (round_up(rows * columns, group),),
            (group,),
        )


def product_macros(gemm: Gemm) -> Mapping[str, DefineValue]:
    """Return the macros of a product: how its operands lie, and what becomes of its sums."""
    macros = {**gemm.epilogue.defines, "TRANS_A": gemm.trans_a, "TRANS_B": gemm.trans_b}
    if gemm.rest.bias is not None:
        macros["CHANNELS_ARE_ROWS"] = gemm.channels_are_rows
    return macros


def kernel_source(name: str) -> KernelSource:
    """Return a kernel file of this package."""
    return KernelSource(PACKAGE, f"kernels/{name}.cl")
