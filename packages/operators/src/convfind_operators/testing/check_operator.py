"""`check_operator`: checks that results are right, and that nothing else is written."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from convfind.checking.guards import POISON, behind_guards, is_poisoned, poisoned
from convfind.device.target import Target
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import WORKSPACE_ALIGNMENT, Recipe
from convfind_operators.operand import Array, Operand
from convfind_operators.operator import Operator
from convfind_operators.solver import OperatorSolver
from convfind_operators.solver_list import solver_of

#: Bytes before and behind each operand.
_GUARD = 8 * WORKSPACE_ALIGNMENT
#: Values that a single element of an input becomes, one after the other.
_NOT_FINITE = (np.nan, np.inf, -np.inf)

#: Compiled programs of each device: problems share programs, and compiling takes longest.
_loaded_on: WeakKeyDictionary[Device, dict[Program, object]] = WeakKeyDictionary()


def check_operator(
    problem: Operator,
    device: Device,
    solver: OperatorSolver | None = None,
    *,
    target: Target | None = None,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    not_finite: bool = True,
) -> list[str]:
    """Compute a problem and compare with its reference.

    Args:
        problem: the problem.
        device: an opened device of any backend.
        solver: the solver; without one the first that takes the problem.
        target: what recipes are made for, if not for the device: GPU kernels run on CPUs, too.
        inputs: what to compute with, in types and shapes of the operands; drawn unless given.
        seed: seed of the drawn inputs.
        not_finite: also compute with NaN and infinities in single elements.

    Returns:
        Faults, a line each: wrong results, writes outside of the results or into their
        gaps, changed inputs, a recipe that is not repeatable.
    """
    target = target or device.target
    solver = solver or solver_of(problem, target)
    answer = solver.takes(problem, target)
    if not answer:
        return [f"{solver.solver_id} does not take {problem.key}: {answer}"]
    recipe = solver.solution(problem, target)
    complaints = []
    if pickle.loads(pickle.dumps(recipe)) != solver.solution(problem, target):
        complaints.append("the recipe differs from call to call")
    rng = np.random.default_rng(seed)
    given = dict(inputs) if inputs is not None else problem.draw(rng)
    complaints += _run_and_compare(problem, recipe, device, given)
    if not_finite:
        for name in problem.reads:
            if not problem.operand(name).dtype.is_float or not given[name].size:
                continue
            for value in _NOT_FINITE:
                changed = given[name].copy()
                changed.flat[int(rng.integers(changed.size))] = value
                found = _run_and_compare(problem, recipe, device, {**given, name: changed})
                complaints += [f"with {value} in {name}: {one}" for one in found]
    return [f"{problem.key}: {complaint}" for complaint in complaints]


def assert_operator(problem: Operator, device: Device, **options: Any) -> None:
    """Raise `AssertionError` with all complaints of `check_operator`, if there are any."""
    complaints = check_operator(problem, device, **options)
    if complaints:
        raise AssertionError("\n".join(complaints))


def _run_and_compare(
    problem: Operator, recipe: Recipe, device: Device, inputs: Mapping[str, Array]
) -> list[str]:
    before = {
        operand.name: _memory(operand, inputs.get(operand.name)) for operand in problem.operands
    }
    after = _run(problem, recipe, device, before)
    wide = {
        name: array.astype(np.float64) if problem.operand(name).dtype.is_float else array
        for name, array in inputs.items()
    }
    with np.errstate(all="ignore"):
        right = problem.reference(wide)
        allowed = problem.allowed_error(wide, right)
    complaints = []
    for operand in problem.operands:
        name, memory = operand.name, after[operand.name]
        if not is_poisoned(memory[:_GUARD]):
            complaints.append(f"wrote before the start of {name}")
        if not is_poisoned(memory[_GUARD + operand.nbytes :]):
            complaints.append(f"wrote behind the end of {name}")
        inside = memory[_GUARD:].copy()
        if name in problem.writes:
            complaints += _wrong(operand, operand.view(inside), right[name], allowed[name])
            elements = operand.view(inside.view())
            elements[...] = operand.view(before[name][_GUARD:])
        if (inside[: operand.nbytes] != before[name][_GUARD:][: operand.nbytes]).any():
            where = "into the gaps of" if name in problem.writes else "to"
            complaints.append(f"wrote {where} {name}")
    return complaints


def _wrong(operand: Operand, got: Array, right: Array, allowed: Array) -> list[str]:
    """Return what is wrong about a result."""
    if right.shape != operand.shape:
        return [f"the reference of {operand.name} has shape {right.shape}, not {operand.shape}"]
    if not operand.dtype.is_float:
        differ = got != right.astype(operand.dtype.numpy)
        return [_first(operand.name, got, right, differ)] if differ.any() else []
    with np.errstate(all="ignore"):
        rounded = right.astype(operand.dtype.numpy).astype(np.float64)
        found = got.astype(np.float64)
        smallest = float(np.finfo(np.float32).tiny if operand.dtype.size >= 4 else 1e-7)
        within = operand.dtype.unit_roundoff * np.abs(right) + allowed + smallest
        # An infinite bound, of an infinite result, allows nothing.
        fine = (np.abs(found - right) <= within) & np.isfinite(right)
        may_be_nan = np.isnan(right) | (np.isinf(right) & np.isnan(allowed))
        fine |= (found == rounded) | (np.isnan(found) & may_be_nan)
        # Beyond the largest number of a type an error within the bound may be infinite, or not.
        largest = float(_largest(operand))
        has_sign = ((found < 0) == (right < 0)) | (within < np.inf) & (within >= largest)
        fine |= (np.abs(right) + within >= largest) & (np.abs(found) >= largest * 0.99) & has_sign
    return [] if fine.all() else [_first(operand.name, got, right, ~fine)]


def _largest(operand: Operand) -> float:
    import ml_dtypes

    info: Any = ml_dtypes.finfo
    return float(info(operand.dtype.numpy).max)


def _first(name: str, got: Array, right: Array, differ: Array) -> str:
    at = tuple(int(i[0]) for i in np.nonzero(differ)) if differ.ndim else ()
    count = int(np.count_nonzero(differ))
    return f"{count} elements of {name} are wrong; {at} is {got[at]}, not {right[at]}"


def _memory(operand: Operand, content: Array | None) -> Array:
    """Return poisoned memory with guards, and the content, if any, where it belongs."""
    memory = poisoned(operand.nbytes + 2 * _GUARD)
    if content is not None and content.size:
        operand.view(memory[_GUARD:])[...] = content
    return memory


def _run(
    problem: Operator, recipe: Recipe, device: Device, before: Mapping[str, Array]
) -> dict[str, Array]:
    loaded = _loaded_on.setdefault(device, {})
    for program in recipe.programs:
        if program not in loaded:
            loaded[program] = device.load(program, device.compile(program))
    buffers = {name: device.allocate(memory.size) for name, memory in before.items()}
    for name, memory in before.items():
        device.write(buffers[name], memory)
    if recipe.total_workspace:
        buffers["workspace"] = device.allocate(recipe.total_workspace)
        device.fill(buffers["workspace"], POISON)
    steps = behind_guards(recipe.unbound_steps, dict.fromkeys(before, _GUARD))
    device.invoker(steps, loaded)(InvokeArgs(**buffers))
    device.synchronize()
    after = {}
    for name, memory in before.items():
        after[name] = np.empty_like(memory)
        device.read(buffers[name], after[name])
    return after
