"""`FusedGradients`: the gradients of a fused convolution as steps: its epilogue's, then its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from convfind.errors import ProblemError
from convfind.handle.operand import operand_of
from convfind.problem import ConvProblem, Problem
from convfind.runtime.backend import InvokeArgs
from convfind.runtime.tensors import DeviceTensor
from convfind.types import Direction
from convfind_operators.epilogue_gradient import EpilogueGradientProblem

if TYPE_CHECKING:
    from convfind.handle import Handle
    from convfind.handle.convolution import Convolution


@dataclass(frozen=True, slots=True)
class FusedGradients:
    """The problems whose results are the gradients of one fused convolution.

    Behind the epilogue's gradient, which has the bias's in the same pass, come those of a plain
    convolution.

    Attributes:
        problem: the fused problem, in the forward direction.
        epilogue: the gradient before the activation, and that of the bias; None where there is
            neither.
        data: the gradient of x, whose ``y`` is the gradient before the activation.
        weights: the gradient of w, likewise.
    """

    problem: ConvProblem
    epilogue: EpilogueGradientProblem | None
    data: ConvProblem
    weights: ConvProblem

    @classmethod
    def of(cls, problem: ConvProblem, *, of_result: bool = False) -> Self:
        """Return the gradients' problems.

        Args:
            problem: a fused problem in the forward direction.
            of_result: whether the activation's result is kept for them, and not its argument.

        Raises:
            ProblemError: another direction, whole numbers, a ``beta`` other than 0 and 1, or an
                activation whose results do not tell its slope.
        """
        if problem.direction is not Direction.FORWARD:
            raise ProblemError("direction", problem.direction.value, "forward")
        if not problem.y_dtype.is_float or not problem.dtype.is_float:
            raise ProblemError("dtype", problem.dtype.value, "a floating type")
        if problem.beta not in (0.0, 1.0):
            raise ProblemError("beta", problem.beta, "0 or 1; scale the gradient of z yourself")
        if problem.y_strides is not None:
            raise ProblemError("y_strides", problem.y_strides, "None: gradients without gaps")
        plain = replace(problem.without_epilogue(), beta=0.0)
        return cls(
            problem,
            cls._epilogue_of(problem, of_result),
            plain.with_direction(Direction.BACKWARD_DATA),
            plain.with_direction(Direction.BACKWARD_WEIGHTS),
        )

    @staticmethod
    def _epilogue_of(problem: ConvProblem, of_result: bool) -> EpilogueGradientProblem | None:
        if problem.activation is None and not problem.bias:
            return None
        if of_result and problem.add_last:
            raise ProblemError("of_result", True, "False where a tensor is added behind it")
        return EpilogueGradientProblem(
            x=problem.y_shape,
            activation=problem.activation,
            bias=problem.bias,
            of_result=of_result,
            dtype=problem.y_dtype.value,  # type: ignore[arg-type]  # a word becomes the member
            channels_last=problem.y_layout.channels_last,
        )

    def prepare(self, handle: Handle, **policy: Any) -> PreparedGradients:
        """Find solutions, and make them ready.

        Raises what `Handle.find` and `Handle.prepare` raise.
        """

        def ready(problem: Any) -> Convolution:
            return handle.prepare(handle.find(problem, **policy).best)

        epilogue = None if self.epilogue is None else ready(self.epilogue)
        return PreparedGradients(self, handle, epilogue, ready(self.data), ready(self.weights))


@dataclass(frozen=True, slots=True)
class PreparedGradients:
    """Gradients made ready to run; see `FusedGradients`."""

    gradients: FusedGradients
    handle: Handle
    epilogue: Convolution | None
    data: Convolution
    weights: Convolution

    def run(
        self, *, x: object, w: object, dy: object, saved: object = None
    ) -> dict[str, DeviceTensor]:
        """Compute the gradients from tensors of any kind that `Handle.run` takes.

        Args:
            x: the data.
            w: the weights.
            dy: the gradient of the result.
            saved: the argument of the activation, or with ``of_result`` its result; where there
                is an activation.

        Returns:
            On the device: the gradients of ``x`` and ``w``, with a bias that of ``bias``, and
            where a tensor was added that of ``z``.

        Raises:
            ProblemError: a tensor is missing or of another form than the problem says.
        """
        problem = self.gradients.problem
        tensors = {
            "x": self._tensor(problem, "x", x),
            "w": self._tensor(problem, "w", w),
        }
        behind = self._tensor(self.data.problem, "y", dy)
        before, results = self._before(behind, saved)
        if problem.adds_z:
            results["z"] = behind if problem.add_last else before
        results["x"] = self.data.run(y=before, w=tensors["w"])
        results["w"] = self.weights.run(x=tensors["x"], y=before)
        return results

    def _before(
        self, behind: DeviceTensor, saved: object
    ) -> tuple[DeviceTensor, dict[str, DeviceTensor]]:
        """Return the gradient before the activation, and that of the bias."""
        if self.epilogue is None:
            return behind, {}
        problem = self.epilogue.problem
        buffers = {"dy": behind.buffer}
        if "x" in problem.reads:
            if saved is None:
                raise ProblemError("saved", None, "a tensor: the activation's slope is of it")
            buffers["x"] = self._tensor(problem, "x", saved).buffer
        device = self.handle.session.device
        written = {}
        for name in problem.writes:
            operand = problem.operand(name)
            memory = device.allocate(operand.nbytes)
            written[name] = DeviceTensor(memory, operand.shape, operand.dtype, operand.strides)
            buffers[name] = memory
        if size := self.epilogue.workspace_size:
            buffers["workspace"] = device.allocate(size)
        self.epilogue.enqueue(InvokeArgs(**buffers))
        results = {"bias": written["dbias"]} if "dbias" in written else {}
        return written.get("dx", behind), results

    def _tensor(self, problem: Problem, name: str, value: object) -> DeviceTensor:
        device, spec = self.handle.session.device, problem.operand(name)
        memory = operand_of(device, problem, name, value).memory(device, copying=True)
        return DeviceTensor(memory, spec.shape, spec.dtype, spec.strides)
