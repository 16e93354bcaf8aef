"""Implicit GEMM on CPUs for narrow types: tensors widened to float32, and rounded once."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Grid, Limit, RecipeSolver
from convfind.kit.epilogue_step import epilogue_step
from convfind.problem import EPILOGUE_TRAITS, ConvProblem, Trait
from convfind.solver import Applicability, Reason, Rejected
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, align, i64, moved_to
from convfind.types import Algorithm, DataType
from convfind_solvers_igemm.cpu.solver import CpuSolver
from convfind_solvers_igemm.programs import CPU

_NARROW = (DataType.FLOAT16, DataType.BFLOAT16, DataType.INT8)
#: Sums of so many products of two int8 are whole numbers that a float32 holds exactly.
_MOST_INT8_PRODUCTS = 2**24 // 2**14
#: .. and of so many products of an int8 and a number from -8 to 8.
_MOST_HALF_PRODUCTS = 2**24 // 2**10


class CpuWidened(RecipeSolver):
    """A convolution of float16, bfloat16 or int8 through that of float32."""

    algorithm = Algorithm.IMPLICIT_GEMM
    version = 4
    is_dynamic = True
    backends = ("opencl",)

    def __init__(self, inner: CpuSolver) -> None:
        """Take the float32 solver, which gives this one its id."""
        self.inner = inner
        self.domain = replace(inner.domain.without(*EPILOGUE_TRAITS, Trait.GAPS), dtypes=_NARROW)
        self.solver_id = f"{inner.solver_id}-widened"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what the float32 solver would, where float32 holds the sums."""
        answer = self.inner.applicability(problem, target)
        is_int8 = problem.dtype is DataType.INT8
        if answer and is_int8 and problem.reduction > _MOST_HALF_PRODUCTS:
            detail = f"sums of {problem.reduction} products; {_MOST_HALF_PRODUCTS} are exact"
            return Rejected(Reason.ACCURACY, detail)
        return answer

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of float32, less the cost of converting."""
        wide = self.inner.wti(_wide(problem), target)
        return None if wide is None else (0.35 if _is_halved(problem) else 0.7) * wide

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """The float32 solution between conversions; narrow weights are widened with the packing."""
        if problem.dtype is DataType.INT8 and not problem.has_default_scaling:
            return self._scaled(problem, target)
        if _is_halved(problem):
            return self._halved(problem, target)
        wide = _wide(problem)
        inner = self.inner.solution(wide, target)
        result = problem.direction.writes
        places: dict[str, BufferArg] = {}
        workspace, packed = align(inner.workspace), align(inner.packed)
        for name in "xwy":
            if problem.tensor_dtype(name) is DataType.FLOAT32:
                continue
            if name == "w" and name != result:
                places[Memory.W] = BufferArg(Memory.PACKED, packed)
                packed += wide.nbytes(name)
            else:
                places[name] = BufferArg(Memory.WORKSPACE, workspace)
                workspace += align(wide.nbytes(name))

        def convert(name: str, *, widen: bool) -> Launch:
            ends = BufferArg(name), places[name]
            types = problem.tensor_dtype(name), DataType.FLOAT32
            if not widen:
                ends, types = ends[::-1], types[::-1]
            return _convert(types, ends, problem.elements(name), target)

        reads = [name for name in problem.direction.reads if name != "w"]
        writes = [result] if result in places else []
        if problem.beta:
            reads += writes
        has_weights = Memory.W in places and result != "w"
        return Recipe(
            self.solver_id,
            (
                *(convert(name, widen=True) for name in reads),
                *moved_to(inner.steps, places),
                *(convert(name, widen=False) for name in writes),
            ),
            prepare=(convert("w", widen=True), *moved_to(inner.prepare, places))
            if has_weights
            else (),
            workspace=workspace,
            packed=packed if has_weights else 0,
        )

    def _scaled(self, problem: ConvProblem, target: Target) -> Recipe:
        """Whole sums of int8, then alpha and beta: a float32 would not hold products with them."""
        recipe = self.solution(replace(problem, alpha=1.0, beta=0.0), target)
        sums = BufferArg(Memory.WORKSPACE, align(recipe.workspace))
        return replace(
            recipe,
            steps=(
                *moved_to(recipe.steps, {Memory.Y: sums}),
                epilogue_step(problem, target, sums, scales=True),
            ),
            workspace=sums.offset + align(problem.nbytes(Memory.Y)),
        )

    def _halved(self, problem: ConvProblem, target: Target) -> Recipe:
        """Two sums, of the lower and the upper half of the weights, both exact, joined in int32."""
        wide = _wide(problem)
        inner = self.inner.solution(wide, target)
        image, result = align(wide.nbytes("x")), align(wide.nbytes("y"))
        source = align(inner.workspace)
        weights = align(inner.packed)
        half = weights + align(wide.nbytes("w"))
        halves = tuple(
            {
                Memory.X: BufferArg(Memory.WORKSPACE, source),
                Memory.W: BufferArg(Memory.PACKED, i * half + weights),
                Memory.Y: BufferArg(Memory.WORKSPACE, source + image + i * result),
                Memory.PACKED: BufferArg(Memory.PACKED, i * half),
            }
            for i in range(2)
        )
        types = (problem.tensor_dtype("x"), DataType.FLOAT32)
        ends = (BufferArg(Memory.X), halves[0][Memory.X])
        program = CPU.program("cpu_halves", TO=problem.tensor_dtype("y").upper())
        both_weights = (BufferArg(Memory.W), *(places[Memory.W] for places in halves))
        both_results = (*(places[Memory.Y] for places in halves), BufferArg(Memory.Y))
        return Recipe(
            self.solver_id,
            (
                _convert(types, ends, problem.elements("x"), target),
                *(step for places in halves for step in moved_to(inner.steps, places)),
                _along(program, "igemm_cpu_join", both_results, problem.elements("y"), target),
            ),
            prepare=(
                _along(program, "igemm_cpu_halve", both_weights, problem.elements("w"), target),
                *(step for places in halves for step in moved_to(inner.prepare, places)),
            ),
            workspace=source + image + 2 * result,
            packed=2 * half,
        )


def _is_halved(problem: ConvProblem) -> bool:
    return problem.dtype is DataType.INT8 and problem.reduction > _MOST_INT8_PRODUCTS


def _wide(problem: ConvProblem) -> ConvProblem:
    return replace(problem, dtype=DataType.FLOAT32, y_dtype=DataType.FLOAT32)


def _convert(
    types: tuple[DataType, DataType], ends: tuple[BufferArg, BufferArg], size: int, target: Target
) -> Launch:
    """The launch that copies from one end and type to the other."""
    program = CPU.program("cpu_convert", FROM=types[0].upper(), TO=types[1].upper())
    return _along(program, "igemm_cpu_convert", ends, size, target)


def _along(
    program: Program, entry: str, buffers: tuple[BufferArg, ...], size: int, target: Target
) -> Launch:
    """The launch of a kernel that walks ``size`` elements of each buffer."""
    share = max(4096, -(-size // (4 * target.compute_units)))
    return Grid(program, entry, -(-size // share))(*buffers, i64(size), i64(share))
