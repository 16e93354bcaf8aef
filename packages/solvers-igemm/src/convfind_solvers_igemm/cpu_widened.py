"""Implicit GEMM on CPUs for narrow types: tensors widened to float32, and rounded once."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from convfind.applicability import Applicability, Rejected
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solution import (
    Argument,
    BufferArg,
    ConvSolution,
    Launch,
    Memory,
    Step,
    align,
    i64,
)
from convfind.solver import Solver
from convfind.target import Target
from convfind.types import Algorithm, DataType
from convfind_solvers_igemm.cpu import (
    ChannelsFirstBackwardData,
    ChannelsFirstForward,
    ChannelsLastBackwardData,
    ChannelsLastForward,
)
from convfind_solvers_igemm.cpu_solver import CpuSolver
from convfind_solvers_igemm.cpu_weights import (
    ChannelsFirstBackwardWeights,
    ChannelsLastBackwardWeights,
)

_NARROW = (DataType.FLOAT16, DataType.BFLOAT16, DataType.INT8)
#: Sums of so many products of two int8 are whole numbers that a float32 holds exactly.
_MOST_INT8_PRODUCTS = 2**24 // 2**14
_SOURCE = KernelSource("convfind_solvers_igemm", "kernels/cpu_convert.cl")


class CpuWidened(Solver):
    """A convolution of float16, bfloat16 or int8 through that of float32."""

    inner: ClassVar[CpuSolver]
    algorithm = Algorithm.IMPLICIT_GEMM
    is_dynamic = True
    backends = ("opencl",)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the float32 solver would, in narrow types whose sums float32 holds."""
        if problem.dtype not in _NARROW:
            return Rejected(Reason.DTYPE, f"is for {', '.join(_NARROW)}")
        answer = self.inner.shape_applicability(problem, target)
        if answer and problem.dtype is DataType.INT8:
            if problem.reduction > _MOST_INT8_PRODUCTS:
                detail = f"sums of {problem.reduction} products; {_MOST_INT8_PRODUCTS} are exact"
                return Rejected(Reason.ACCURACY, detail)
            if not problem.has_default_scaling:
                return Rejected(Reason.SCALING, "int8 with alpha 1 and beta 0 only")
        return answer

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the wide tensors and of what the float32 solver needs."""
        return self.solution(problem, target, workspace_limit=limit).total_workspace

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """That of float32, less what converting costs."""
        wide = self.inner.wti(_wide(problem), target)
        return None if wide is None else 0.7 * wide

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """The float32 solution between conversions; narrow weights are widened with the packing."""
        wide = _wide(problem)
        inner = self.inner.solution(wide, target)
        result = problem.direction.writes
        places: dict[Memory, BufferArg] = {}
        workspace, packed = align(inner.workspace), align(inner.packed)
        for name in "xwy":
            if problem.tensor_dtype(name) is DataType.FLOAT32:
                continue
            if name == "w" and name != result:
                places[Memory.W] = BufferArg(Memory.PACKED, packed)
                packed += wide.nbytes(name)
            else:
                places[Memory(name)] = BufferArg(Memory.WORKSPACE, workspace)
                workspace += align(wide.nbytes(name))

        def widen(name: str) -> Launch:
            dtype = problem.tensor_dtype(name)
            arguments = (BufferArg(Memory(name)), places[Memory(name)])
            return _convert(dtype, DataType.FLOAT32, arguments, problem.elements(name), target)

        read = [name for name in problem.direction.reads if name != "w"]
        if problem.beta and Memory(result) in places:
            read.append(result)
        steps: list[Step] = [widen(name) for name in read]
        steps += [_moved(step, places) for step in inner.steps]
        if Memory(result) in places:
            dtype = problem.tensor_dtype(result)
            arguments = (places[Memory(result)], BufferArg(Memory(result)))
            size = problem.elements(result)
            steps.append(_convert(DataType.FLOAT32, dtype, arguments, size, target))
        prepare: tuple[Step, ...] = ()
        if Memory.W in places and result != "w":
            prepare = (widen("w"), *(_moved(step, places) for step in inner.prepare))
        return ConvSolution(
            self.solver_id,
            tuple(steps),
            prepare=prepare,
            workspace=workspace,
            packed=packed if prepare else 0,
        )


class ChannelsFirstForwardWidened(CpuWidened):
    """y from x and w, channels first."""

    solver_id = "igemm-cpu-nchw-fwd-widened"
    inner = ChannelsFirstForward()


class ChannelsLastForwardWidened(CpuWidened):
    """y from x and w, channels last."""

    solver_id = "igemm-cpu-nhwc-fwd-widened"
    inner = ChannelsLastForward()


class ChannelsFirstBackwardDataWidened(CpuWidened):
    """x from y and w, channels first."""

    solver_id = "igemm-cpu-nchw-bwd-data-widened"
    inner = ChannelsFirstBackwardData()


class ChannelsLastBackwardDataWidened(CpuWidened):
    """x from y and w, channels last."""

    solver_id = "igemm-cpu-nhwc-bwd-data-widened"
    inner = ChannelsLastBackwardData()


class ChannelsFirstBackwardWeightsWidened(CpuWidened):
    """w from x and y, channels first."""

    solver_id = "igemm-cpu-nchw-bwd-weights-widened"
    inner = ChannelsFirstBackwardWeights()


class ChannelsLastBackwardWeightsWidened(CpuWidened):
    """w from x and y, channels last."""

    solver_id = "igemm-cpu-nhwc-bwd-weights-widened"
    inner = ChannelsLastBackwardWeights()


def _wide(problem: ConvProblem) -> ConvProblem:
    return replace(problem, dtype=DataType.FLOAT32, y_dtype=DataType.FLOAT32)


def _convert(
    source: DataType,
    result: DataType,
    arguments: tuple[BufferArg, BufferArg],
    size: int,
    target: Target,
) -> Launch:
    defines = make_defines(FROM=source.upper(), TO=result.upper())
    program = Program(_SOURCE, KernelLanguage.OPENCL_C, defines)
    share = max(4096, -(-size // (4 * target.compute_units)))
    return Launch(
        KernelSpec(program, "igemm_cpu_convert"),
        (*arguments, i64(size), i64(share)),
        (-(-size // share),),
        (1,),
    )


def _moved(step: Step, places: dict[Memory, BufferArg]) -> Step:
    """A step of the float32 solution on the wide tensors."""
    assert isinstance(step, Launch)

    def moved(argument: Argument) -> Argument:
        if isinstance(argument, BufferArg):
            return places.get(argument.memory, argument)
        return argument

    return replace(step, arguments=tuple(map(moved, step.arguments)))
