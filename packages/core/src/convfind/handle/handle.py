"""`Handle`: an open device, on which convolutions are found, prepared and run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from convfind.cached import RecentlyUsed
from convfind.device.target import Target
from convfind.errors import ProblemError, SolutionError
from convfind.find.finder import find
from convfind.find.result import FindResult
from convfind.find.solution import Solution
from convfind.finddb import FindDb
from convfind.handle.convolution import Convolution
from convfind.handle.empty_problem import empty_convolution, empty_result
from convfind.handle.miopen_calls import MIOpenCalls
from convfind.handle.operand import operand_of
from convfind.handle.posed import posed
from convfind.handle.tracing import TracedInvoker
from convfind.handle.transfer import to_device, to_host
from convfind.policy import POLICY_FIELDS, FindEnforce, FindKeywords, Mode, Policy
from convfind.problem import ConvProblem, Problem
from convfind.problem.options import CallOptions, ConvOptions, check_call_names
from convfind.runtime.backend import InvokeArgs, Invoker
from convfind.runtime.session import Progress, Session, silent
from convfind.runtime.tensors import DeviceTensor
from convfind.settings import Settings
from convfind.solver import asking

if TYPE_CHECKING:
    from convfind.find.explanation import Explanation
    from convfind.plugins.registry import Registry

#: Prepared convolutions, and problems with a choice, that a handle keeps: a server that lives long
#: sees shapes without end.
_MOST_CONVOLUTIONS = 512


class Handle:
    """An open device with its database and caches.

    Prepared and bound convolutions may run in several threads, which take turns; `tensor`,
    `to_numpy` and `synchronize` too, and finds that measure. Everything else is for one thread at a
    time.

    A context manager: leaving it releases the device.
    """

    def __init__(self, session: Session, settings: Settings) -> None:
        self._session = session
        self._settings = settings
        self._policy = settings.policy
        self._convolutions = RecentlyUsed[tuple[object, ...], Convolution](_MOST_CONVOLUTIONS)
        self._problems = RecentlyUsed[str, Problem](_MOST_CONVOLUTIONS)
        self._chosen = RecentlyUsed[Problem, dict[Policy, Solution]](_MOST_CONVOLUTIONS)

    @property
    def target(self) -> Target:
        """The device as a value."""
        return self._session.target

    @property
    def registry(self) -> Registry:
        """The solvers, backends and heuristics in use."""
        return self._session.registry

    @property
    def database(self) -> FindDb:
        """The database in use."""
        return self._session.database

    @property
    def session(self) -> Session:
        """The session that the stages of a find share, for tools."""
        return self._session

    @property
    def miopen(self) -> MIOpenCalls:
        """The calls of MIOpen's find API, immediate mode and Find 2.0, on this handle."""
        return MIOpenCalls(self)

    def policy(self, mode: Mode | None = None, **changes: Unpack[FindKeywords]) -> Policy:
        """Return the policy of a find with these arguments, environment defaults included.

        Raises:
            SettingsError: an unknown mode, field or solver, or an illegal value; names the legal
                ones.
        """
        fields: dict[str, Any] = {**changes}
        enforce = FindEnforce.parse(fields.pop("enforce", self._settings.find_enforce), "enforce")
        if mode is not None:
            fields["mode"] = mode
        policy = self._policy.with_changes(**fields) if fields else self._policy
        for name in ("solvers", "deny"):
            if name in fields:
                self.registry.check_solvers(name, getattr(policy, name) or ())
        return policy.enforced(enforce)

    def mode_for_fixed_sizes(self, mode: Mode | None = None) -> Mode:
        """Return the mode of finds for sizes that are known not to change, as in a network's plan.

        It is the one that is given or that the environment sets; else ``HYBRID`` on GPUs, and the
        usual one elsewhere.
        """
        if mode is not None:
            return mode
        if self._settings.find_mode is not None:
            return self._settings.find_mode
        return self._policy.for_fixed_sizes(self.target.kind).mode

    # -- finding ----------------------------------------------------------------------------------

    def find(
        self,
        problem: Problem,
        mode: Mode | None = None,
        *,
        on_progress: Progress = silent,
        **policy: Unpack[FindKeywords],
    ) -> FindResult:
        """Find the solutions for a problem on this device, fastest first.

        Args:
            problem: the convolution, or a problem of another type.
            mode: a `FindMode`, its word or its number; None for the environment's or the default.
            on_progress: called with stage ("compile", "measure", "tune"), done, total and a label.
            **policy: fields of `Policy`, and ``enforce``, a `FindEnforce`.

        A problem with a batch of 0 is answered without asking device, solvers or database.

        Raises:
            SettingsError: an illegal mode or policy.
            ProblemError: something else than a problem.
        """
        _check_problem(problem)
        return self._find_anew(problem, self.policy(mode, **policy), on_progress)

    def find_all(
        self,
        problems: Iterable[Problem],
        mode: Mode | None = None,
        *,
        on_progress: Progress = silent,
        **policy: Unpack[FindKeywords],
    ) -> dict[Problem, FindResult]:
        """Find several problems as one batch, such as those of a network; results by problem.

        It takes less time than one find after the other: what they compile first is compiled side
        by side, and of programs that several of them can use as many as the whole is worth.

        Args:
            problems: the problems, each as often as it occurs.
            mode: as `find` takes it.
            on_progress: called with stage "find", problems done, problems in all, and a label.
            **policy: as `find` takes it, but ``time_budget`` is for all of them together; what is
                left over is estimated.

        Raises as `find` does.
        """
        from convfind.find.batch import find_all

        def one(problem: Problem, allowed: Policy) -> FindResult:
            return self._find_anew(problem, allowed, silent)

        budget = None
        if "time_budget" in policy:
            budget = self.policy(mode, **policy).time_budget
            policy["time_budget"] = None  # nor that of a find in the environment
        asked, allowed = list(problems), self.policy(mode, **policy)
        for problem in asked:
            _check_problem(problem)
        some = [problem for problem in asked if not _is_empty(problem)]
        found = find_all(some, self._session, allowed, one, on_progress, budget)
        return {
            problem: found[problem] if problem in found else one(problem, allowed)
            for problem in dict.fromkeys(asked)
        }

    def compile_ahead(
        self,
        problems: Iterable[Problem],
        mode: Mode | None = None,
        *,
        on_progress: Progress = silent,
        **policy: Unpack[FindKeywords],
    ) -> int:
        """Compile side by side what finds of these problems would compile first.

        Finds that follow with the same arguments take less time: a find by itself has few programs
        to compile at once. Arguments are those of `find`; a time budget is for compiling ahead: the
        programs that save most come first, and none begins once it is spent.

        Returns:
            How many programs were compiled.
        """
        from convfind.find.ahead import compile_ahead

        asked = [problem for problem in problems if not _is_empty(problem)]
        return compile_ahead(asked, self._session, self.policy(mode, **policy), on_progress)

    def explain(
        self, problem: Problem, mode: Mode | None = None, **policy: Unpack[FindKeywords]
    ) -> Explanation:
        """Say what a find would do, and of every solver what it answers and what is recorded."""
        from convfind.find.explanation import explain

        _check_problem(problem)
        return explain(problem, self._session, self.policy(mode, **policy))

    # -- running ----------------------------------------------------------------------------------

    def convolve(
        self,
        x: object,
        w: object,
        *,
        bias: object = None,
        z: object = None,
        policy: Policy | Mode | None = None,
        out: object = None,
        workspace: object = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Compute ``y = activation(alpha * conv(x, w) + bias + beta * z)``: find, once, and run.

        Axes are in N, C, spatial order. Shapes, type and layouts are those of the tensors: strides
        tell whether x lies channels last; weights of the host follow it.

        Args:
            x: the data (N, C, spatial); this and the other tensors as `Convolution.run` takes them.
            w: the weights (K, C / groups, spatial).
            bias: K numbers, or None to add none.
            z: a tensor of the result's shape to add, or None.
            out: where to write, or None; the result lies as ``out`` does, or as z does.
            workspace: device memory, or None for that of the pool.
            policy: what the find may do: a mode, as `find` takes it, or what `policy` returns.
            **options: stride, padding and so on; see `CallOptions`.

        Returns:
            ``out`` if given, else a NumPy array; a `DeviceTensor` if x and w are on the device.

        Raises:
            ProblemError: the convolution is impossible, or a tensor is none.
            SettingsError: an illegal mode.
            NoSolverError: no solver computes it under the policy.
        """
        check_call_names(options, POLICY_FIELDS)
        like = z if out is None else out
        addends: ConvOptions = {"bias": bias is not None, "add": z is not None}
        given = posed(self._session.device, x, w, like, {**addends, **options})
        allowed = policy if isinstance(policy, Policy) else self.policy(policy)
        chosen = self._chosen.get(given.problem)
        if chosen is None:
            self._chosen.put(given.problem, chosen := {})
        if allowed not in chosen:
            chosen[allowed] = self._find(given.problem, allowed, silent).best
        return self.prepare(chosen[allowed]).run(
            x=given.x, w=given.w, bias=bias, z=z, out=out, workspace=workspace
        )

    def prepare(self, solution: Solution) -> Convolution:
        """Make a solution ready to run; compiled kernels come from the caches where they can.

        Raises:
            SolutionError: made for another device, by a solver that is not installed, no longer
                applicable, or with a config that is none of the solver's.
            SolverError: the solver fails.
            KernelBuildError: its kernels do not build.
        """
        try:
            key = (
                *(solution.problem, solution.solver, solution.config, solution.workspace),
                *(solution.device, solution.binaries),
            )
        except AttributeError:
            msg = f"a {type(solution).__name__} is no solution; pass `find(problem).best`"
            raise SolutionError(msg) from None
        convolution = self._convolutions.get(key)
        if convolution is None:
            convolution = self._prepared(solution)
            self._convolutions.put(key, convolution)
        return convolution

    def run(
        self,
        solution: Solution,
        *,
        x: object = None,
        w: object = None,
        y: object = None,
        bias: object = None,
        z: object = None,
        out: object = None,
        workspace: object = None,
        **others: object,
    ) -> Any:
        """Run a solution on the tensors that its problem reads; see `Convolution.run`."""
        return self.prepare(solution).run(
            x=x, w=w, y=y, bias=bias, z=z, out=out, workspace=workspace, **others
        )

    def bind(self, solution: Solution, *, w: object, bias: object = None) -> Convolution:
        """Fix weights, and a bias, that will not change: what a solver packs is packed here, once.

        Returns:
            A `Convolution` whose `run` takes the other tensors only.

        Raises:
            ProblemError: the problem does not read w or bias, or one has the wrong shape or type.
        """
        plain = self.prepare(solution)
        problem, device, recipe = plain.problem, self._session.device, plain.recipe
        if "w" not in problem.reads:
            word = getattr(problem, "direction", problem.kind)
            doing = "writes" if "w" in problem.writes else "does not read"
            legal = f"forward or backward-data; {word} {doing} w"
            raise ProblemError("w", "bound weights", legal)
        # A copy, because the caller's array may share its memory with the device and change.
        weights = operand_of(device, problem, "w", w).memory(device, copying=True)
        bound = {"w": weights}
        if bias is not None:
            if "bias" not in problem.reads:
                raise ProblemError("bias", type(bias).__name__, "nothing: the problem has none")
            bound["bias"] = operand_of(device, problem, "bias", bias).memory(device, copying=True)
        if not recipe.packed:
            return replace(plain, bound=bound)
        loaded = self._session.kernels.load_given(recipe.programs, solution.binaries)
        packed = device.allocate(recipe.packed)
        workspace = device.allocate(recipe.workspace) if recipe.workspace else None
        device.invoker(recipe.prepare, loaded)(
            InvokeArgs(w=weights, packed=packed, workspace=workspace)
        )
        device.synchronize()
        invoker = self._traced(device.replayed(recipe.steps, loaded), solution)
        return replace(
            plain,
            invoker=invoker,
            workspace_size=recipe.workspace,
            bound={**bound, "packed": packed},
        )

    def tensor(self, array: object) -> DeviceTensor:
        """Copy an array, or a host tensor with DLPack, to the device.

        An array that lies channels last in N, C, spatial order stays so, as in ``torch.Tensor.to``;
        every other array becomes C-contiguous.

        Raises:
            ProblemError: no tensor, or of a type that no problem has.
        """
        return to_device(self._session.device, array)

    def to_numpy(self, tensor: DeviceTensor) -> Any:
        """Copy a tensor from the device, after everything enqueued before.

        Raises `ProblemError` for anything but a `DeviceTensor`.
        """
        return to_host(self._session.device, tensor)

    def synchronize(self) -> None:
        """Wait until everything enqueued has finished."""
        with self._session.device.lock:
            self._session.device.synchronize()

    def _find_anew(self, problem: Problem, policy: Policy, on_progress: Progress) -> FindResult:
        if problem in self._chosen:
            self._chosen.put(problem, {})
        return self._find(problem, policy, on_progress)

    def _find(self, problem: Problem, policy: Policy, on_progress: Progress) -> FindResult:
        if not isinstance(problem, ConvProblem):
            self._problems.put(problem.text, problem)
        elif problem.is_empty:
            return empty_result(problem, self.target, policy)
        return find(problem, self._session, policy, on_progress)

    def _prepared(self, solution: Solution) -> Convolution:
        problem = self._problem_of(solution.problem)
        plain = problem.plain()
        target = self._session.target
        if solution.device not in target.identities:
            msg = (
                f"solution is for {solution.device}, and this is {target.identity}; find again here"
            )
            raise SolutionError(msg)
        if isinstance(problem, ConvProblem) and problem.is_empty:
            return empty_convolution(problem, solution, self._session.device)
        solver = self._session.registry.solver(solution.solver)
        answer = asking.applicability(solver, plain, target)
        if not answer:
            msg = f"{solution.solver} does not take {problem}: {answer}; find again"
            raise SolutionError(msg)
        given = (solution.config, solution.workspace)
        if fault := asking.config_fault(solver, plain, target, *given):
            msg = f"config {solution.config} of {solution.solver} is not legal: {fault}; find again"
            raise SolutionError(msg)
        recipe = asking.remembered_recipe(solver, plain, target, *given)
        loaded = self._session.kernels.load_given(recipe.programs, solution.binaries)
        invoker = self._session.device.replayed(recipe.unbound_steps, loaded)
        return Convolution(
            problem=problem,
            solution=solution,
            recipe=recipe,
            device=self._session.device,
            invoker=self._traced(invoker, solution),
            workspace_size=recipe.total_workspace,
        )

    def _problem_of(self, text: str) -> Problem:
        """Return the problem of a solution: one of this handle's finds, or read from its text."""
        found = self._problems.get(text)
        return self.registry.problem_from_key(text) if found is None else found

    def _traced(self, invoker: Invoker, solution: Solution) -> Invoker:
        return TracedInvoker(invoker, solution) if self._settings.verbose else invoker

    # -- life -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for what is under way, and release the device and the database."""
        if self._session.child is not None:
            self._session.child.close()
        try:
            self._session.device.close()
        finally:
            self._session.kernels.close()
            self._session.kept.clear()
            self._convolutions.clear()
            self._chosen.clear()
            self._session.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _is_empty(problem: Problem) -> bool:
    return isinstance(problem, ConvProblem) and problem.is_empty


def _check_problem(problem: object) -> None:
    if not isinstance(getattr(type(problem), "kind", None), str):
        how = "a ConvProblem; ConvProblem.from_key and ConvProblem.from_driver read texts"
        raise ProblemError("problem", problem, how)
