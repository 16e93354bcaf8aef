"""`LibraryMatMulSolver`: products of matrices by the library of a device's runtime."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver import ProblemDomain
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.recipe import LibraryGemm, Matrix, Step
from convfind.types import Algorithm, DataType
from convfind_operators.matmul import MatMulProblem
from convfind_operators.operator import Operator
from convfind_operators.solver import OperatorSolver

#: The features of targets whose runtime has a library: any of them will do.
LIBRARIES: Final = ("cublas", "rocblas")
#: Types that all of them multiply; sums are float32, of float64 float64.
_DTYPES: Final = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT64)
#: Libraries count in ints.
_LARGEST: Final = 2**31 - 1
#: The most calls, and what each of several has to be worth: kernels compute that much meanwhile.
_MOST_CALLS, _LEAST_FLOPS = 64, 2e7


class LibraryMatMulSolver(OperatorSolver):
    """One call for a batch with one step from product to product, some for other batches."""

    family = MatMulProblem
    algorithm = Algorithm.GEMM

    def __init__(self, problem: type[Operator]) -> None:
        super().__init__(problem)
        self.solver_id += "-library"
        self.domain = ProblemDomain(problem=problem.kind, dtypes=_DTYPES, traits=self.domain.traits)

    def countable(self, problem: MatMulProblem, target: Target) -> Applicability:
        """Take matrices that a library reads, and writes, where they lie."""
        if not any(map(target.has, LIBRARIES)):
            return Rejected(Reason.FEATURE, f"needs {' or '.join(LIBRARIES)}")
        calls = _calls(problem)
        return calls if isinstance(calls, Rejected) else APPLICABLE

    def steps(self, problem: MatMulProblem, target: Target) -> tuple[Step, ...]:
        """Return the calls."""
        calls = _calls(problem)
        assert not isinstance(calls, Rejected)
        return calls


def _calls(problem: MatMulProblem) -> tuple[LibraryGemm, ...] | Rejected:
    """Return the calls that compute a problem, or why there are none."""
    if not problem.flops or not problem.alpha:
        return Rejected(Reason.SIZE_LIMIT, "there is nothing to multiply")
    walk, rank = problem.walk, len(problem.batch)
    k, n = walk.sizes[rank + 1 :]
    (_, a_k, _), (_, b_k, b_n), (_, _, y_n) = (view.steps[rank:] for view in walk.views)
    # Where products share b, and rows go on from one to the next, a batch is more rows.
    outside = walk.along([axis for axis in range(rank + 1) if walk.sizes[axis] != 1]).merged()
    axes = list(zip(outside.sizes, *(view.steps for view in outside.views), strict=True))
    m, a_m, _, y_m = (1, 0, 0, 0) if axes[-1][2] else axes.pop()
    a, b, y = _lines(m, k, a_m, a_k), _lines(k, n, b_k, b_n), _lines(m, n, y_m, y_n)
    if a is None or b is None or y is None or y[0]:
        return Rejected(Reason.LAYOUT, "neither rows nor columns are lines of neighbours")
    batch, *steps = max(axes, default=(1, 0, 0, 0))
    others = sorted(axes)[:-1]
    count = prod(size for size, *_ in others)
    if count > 1 and (count > _MOST_CALLS or problem.flops < count * _LEAST_FLOPS):
        return Rejected(Reason.LAYOUT, f"{count} calls, since the batch has no one step")
    numbers = (m, k, n, batch, a[1], b[1], y[1])
    if max(numbers) > _LARGEST or any(step < 0 for axis in axes for step in axis):
        return Rejected(Reason.SIZE_LIMIT, "numbers that are no ints of a library's")

    places = [
        [sum(i * axis[at] for i, axis in zip(index, others, strict=True)) for at in (1, 2, 3)]
        for index in product(*(range(size) for size, *_ in others))
    ]

    def matrix(at: int, lead: int, place: list[int]) -> Matrix:
        view = walk.views[at]
        dtype = DataType(view.dtype.value)
        return Matrix(view.name, dtype, lead, place[at] * view.dtype.size, steps[at])

    return tuple(
        LibraryGemm(
            *(m, n, k),
            a=matrix(0, a[1], place),
            b=matrix(1, b[1], place),
            c=matrix(2, y[1], place),
            trans_a=a[0],
            trans_b=b[0],
            batch=batch,
            alpha=problem.alpha,
            allow_tf32=problem.allow_tf32,
            deterministic=True,
        )
        for place in places
    )


def _lines(rows: int, columns: int, row: int, column: int) -> tuple[bool, int] | None:
    """Return whether a matrix lies transposed, and how far apart its lines are; None: no lines.

    The step along an axis of size 1 is never taken.
    """
    if (column == 1 or columns == 1) and (rows == 1 or row >= columns):
        return False, columns if rows == 1 else row
    if (row == 1 or rows == 1) and (columns == 1 or column >= rows):
        return True, rows if columns == 1 else column
    return None
