"""`AttentionSolver`: attention in one launch on any device, its scores never in memory."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import Launch, Step
from convfind_operators.attention import AttentionProblem
from convfind_operators.attention_launch import arguments_of, countable, macros_of, work_groups
from convfind_operators.element_type import ElementType
from convfind_operators.launching import has_vectors
from convfind_operators.library_matmul_solver import LIBRARIES
from convfind_operators.solver import OperatorSolver

#: Queries and work-items of a work-group, and the longest results.
_TILE, _GROUP, _LONGEST = 64, 256, 256
#: A share of an H200's peak: 19 of 67 TFLOP/s in float32.
_INDEX = 0.28


class AttentionSolver(OperatorSolver):
    """Plain multiply-adds, on any device."""

    family = AttentionProblem

    def countable(self, problem: AttentionProblem, target: Target) -> Applicability:
        """Take what a work-group has room for."""
        if problem.dtype is ElementType.FLOAT64 or problem.mask_dtype is ElementType.FLOAT64:
            return Rejected(Reason.DTYPE, "computes in float32")
        if target.max_work_group < _GROUP:
            return Rejected(Reason.WORK_GROUP, f"needs {_GROUP} work-items")
        if problem.values > _LONGEST:
            return Rejected(Reason.SIZE_LIMIT, f"values of {problem.values} elements")
        return countable(problem, _TILE)

    def wti(self, problem: AttentionProblem, target: Target) -> float | None:
        """The index that was measured, where no library's products are faster, with all around."""
        has_library = has_vectors(target) or any(map(target.has, LIBRARIES))
        return None if has_library else _INDEX

    def steps(self, problem: AttentionProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        macros = {**macros_of(problem), "CF_ARITHMETIC": "FLOAT32"}
        program = Program(
            KernelSource("convfind_operators", "kernels/attention.cl"),
            KernelLanguage.SHARED,
            make_defines({"VALUES": -(-problem.values // _TILE) * _TILE}, macros),
        )
        kernel = KernelSpec(program, "operators_attention")
        arguments = arguments_of(problem, element_steps=True)
        groups = work_groups(problem, _TILE)
        return (Launch(kernel, arguments, (groups * _GROUP,), (_GROUP,)),)
