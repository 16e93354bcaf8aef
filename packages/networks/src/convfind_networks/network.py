"""`Network`: a model, its graph for given shapes, and what that graph asks of convfind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.runtime.session import Progress, silent
from convfind.types import AccuracyClass, DataType
from convfind_networks.errors import GraphError, ModelFormatError
from convfind_networks.graph import Graph
from convfind_networks.model import Model, ModelInput, Shapes, bind
from convfind_networks.ops import Convolution
from convfind_networks.passes import optimize

if TYPE_CHECKING:
    from convfind.handle import Handle
    from convfind.policy import FindKeywords, Mode
    from convfind_networks.plan import Plan


@dataclass(frozen=True, eq=False)
class Network:
    """A model whose input shapes may still be open.

    Methods take ``shapes``, which says what the model leaves open, or overrides what it says: the
    shape of an input by its name, ``{"x": (4, 3, 224, 224)}``; the size of every dimension of a
    name, ``{"batch": 4}``; or an array for an input that is to be constant.
    """

    model: Model

    @classmethod
    def from_onnx(cls, source: Any, *, outputs: Sequence[str] = ()) -> Network:
        """Read an ONNX model: a path, the bytes of a file, or a ``ModelProto``.

        Args:
            source: the model.
            outputs: names of the values that the network is to end with, such as the boxes before
                a NonMaxSuppression; the model's own outputs unless given.

        Raises:
            ModelFormatError: it is none, or damaged, or has no value of such a name.
        """
        from convfind_networks.from_onnx import read_onnx

        return cls(read_onnx(source, outputs))

    @classmethod
    def from_torch(cls, program: Any, *, name: str = "model") -> Network:
        """Take over what ``torch.export.export`` returns; needs the extra ``[torch]``.

        Raises:
            ModelFormatError: it is no exported program.
        """
        from convfind_networks.from_torch import read_exported_program

        return cls(read_exported_program(program, name))

    @classmethod
    def built_in(cls, name: str) -> Network:
        """Return an architecture with random weights: ``resnet50``, ``vgg16``, ``mobilenet_v2``.

        Raises:
            ModelFormatError: none has this name.
        """
        from convfind_networks.built_in import BUILT_IN

        if name not in BUILT_IN:
            raise ModelFormatError(f"no network {name!r} is built in; {', '.join(BUILT_IN)} are")
        return cls(BUILT_IN[name])

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    @property
    def inputs(self) -> Sequence[ModelInput]:
        """The inputs, with the dimensions that are open."""
        return self.model.inputs

    def graph(self, shapes: Shapes | None = None) -> Graph:
        """Return the graph as the model has it, with constants folded.

        Raises:
            UnsupportedError: something in the model is not supported; has the whole list.
            BindingError: a size is missing or impossible.
            ModelFormatError: the model is malformed.
        """
        return self.model.graph(bind(self.inputs, shapes))

    def optimized(self, shapes: Shapes | None = None) -> Graph:
        """Return the graph after all passes: what is left is what has to run."""
        return optimize(self.graph(shapes))

    def compile(
        self,
        handle: Handle,
        shapes: Shapes | None = None,
        mode: Mode | None = None,
        *,
        channels_last: bool | None = None,
        allow_tf32: Collection[str] = (),
        autocast: str | None = None,
        deterministic: bool = False,
        accuracy: AccuracyClass | str = AccuracyClass.NORMAL,
        rehearse: bool = False,
        on_progress: Progress = silent,
        **policy: Unpack[FindKeywords],
    ) -> Plan:
        """Make the network ready to run on a device: find, plan the memory, pack the weights.

        Recorded problems are not found again, so that compiling for another batch size costs only
        what is new in it. Whether a 1x1 and a depthwise convolution are computed as one is
        decided by runs of the network, in a second or two, where finds may measure, no
        ``time_budget`` is given, and the device can time steps within a run.

        Args:
            handle: the device; it must stay open while the plan is in use.
            shapes: what the model leaves open; see the class.
            mode: of the finds, as `Handle.find` takes it; None for the environment's, else
                ``HYBRID`` on GPUs: a plan's sizes do not change.
            channels_last: whether values lie so where they can; None: as the device wants it.
            allow_tf32: kinds of operations, of ``("Convolution", "Linear", "MatMul")``, whose
                float32 factors may be rounded to TF32; products of attention are ``MatMul``.
            autocast: ``float16`` or ``bfloat16``: the products of a float32 network are computed in
                this type, as PyTorch's autocast has it, once norms are folded into them.
            deterministic: only solvers that promise the same bits in every run.
            accuracy: the rounding error that convolutions may have: ``strict``, that of the direct
                formula; ``normal``; ``relaxed``, also transforms that lose some bits.
            rehearse: time the solutions that finds had among the fastest once more, within runs of
                the network, and use what is fastest there. It takes seconds, on CPUs and GPUs by
                OpenCL, and nowhere else has an effect; `Plan.save` keeps the outcome.
            on_progress: called with stage "find", problems done, problems in all, and a label.
            **policy: as `Handle.find` takes it. A ``time_budget`` is for the whole network; what
                is left over then is served by estimates, and the plan's notes say so.

        Raises:
            UnsupportedError: something cannot run; has the whole list.
            BindingError, ModelFormatError: as `graph` does.
            NoSolverError: no solver takes one of the problems under the policy.
        """
        from convfind_networks.plan import compile_graph

        return compile_graph(
            handle,
            self.optimized(shapes),
            network=self.name,
            mode=mode,
            channels_last=channels_last,
            allow_tf32=allow_tf32,
            autocast=autocast,
            deterministic=deterministic,
            accuracy=accuracy,
            rehearse=rehearse,
            on_progress=on_progress,
            **policy,
        )

    def problems(
        self, shapes: Shapes | None = None, *, channels_last: bool = False
    ) -> dict[ConvProblem, int]:
        """Return the distinct convolutions, and how often each occurs, in order of occurrence.

        They are plain forward problems, without epilogues; paddings are folded. Give all of them
        to a find, or to ``convfind tune``, and the whole network is found.
        """
        return problems_of(self.optimized(shapes), channels_last=channels_last)


def problems_of(graph: Graph, *, channels_last: bool = False) -> dict[ConvProblem, int]:
    """Return the distinct convolutions of a graph, and how often each occurs."""
    return Counter(
        problem
        for node in graph.nodes
        if isinstance(node.op, Convolution)
        for problem in [_problem(graph, node.inputs, node.op, channels_last)]
    )


def _problem(
    graph: Graph, inputs: Sequence[str], op: Convolution, channels_last: bool
) -> ConvProblem:
    x, w = graph.types(inputs[:2])
    try:
        dtype = DataType(x.dtype.name)
        return op.geometry.problem(x.shape, w.shape, dtype=dtype, channels_last=channels_last)
    except (ValueError, ProblemError) as exc:
        raise GraphError(f"a convolution of {x} with {w}: {exc}") from exc
