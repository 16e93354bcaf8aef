"""`ConvProblem`: everything about a convolution that can change its result or its speed."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, Unpack

from convfind.cached import cached_property
from convfind.problem import checks, geometry
from convfind.problem.activation import Activation
from convfind.problem.fields import canonicalize
from convfind.problem.options import ConvOptions, Sizes, fields_of
from convfind.problem.syntax.network_config import format_network_config, format_problem
from convfind.problem.tensor_spec import TensorSpec
from convfind.problem.traits import traits_of
from convfind.problem.values import enum_value, integer
from convfind.types import AccuracyClass, ConvMode, DataType, Direction, Layout

_FLIPPED = {
    Direction.FORWARD: Direction.BACKWARD_DATA,
    Direction.BACKWARD_DATA: Direction.FORWARD,
    Direction.BACKWARD_WEIGHTS: Direction.BACKWARD_WEIGHTS,
}


@dataclass(frozen=True)
class ConvProblem:
    """A convolution: tensors, geometry, direction, numeric promises. Immutable and hashable.

    Shapes are always in N, C, spatial order (weights: K, C/groups, filter), whatever the layout in
    memory. The letters never change their role: ``x`` data, ``w`` weights, ``y`` result; the
    direction says which of them is computed. Build one with `forward`, `backward_data` or
    `backward_weights`, which accept plain numbers and fill in defaults.

    For ``mode="transpose"`` the weights are C_in, C_out/groups, filter, as in the frameworks, and
    ``plain()`` gives the ordinary convolution that computes the same numbers.

    The result is ``activation(alpha * convolution + bias + beta * z)``: ``bias`` has one element
    for each channel of the result, ``z`` is what lies in the result or, with ``add``, a tensor of
    its own like the result. Both have the result's element type. With ``add_last``, ``z`` comes
    behind the activation, ``activation(alpha * convolution + bias) + beta * z``, and may not be
    the result.
    """

    kind: ClassVar[str] = "conv"
    is_measured: ClassVar[bool] = True

    direction: Direction
    x_shape: tuple[int, ...]
    w_shape: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    padding_end: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    mode: ConvMode = ConvMode.CONVOLUTION
    output_padding: tuple[int, ...] = ()
    dtype: DataType = DataType.FLOAT32
    y_dtype: DataType = DataType.FLOAT32
    x_layout: Layout = Layout.NCHW
    w_layout: Layout = Layout.NCHW
    y_layout: Layout = Layout.NCHW
    x_strides: tuple[int, ...] | None = None
    w_strides: tuple[int, ...] | None = None
    y_strides: tuple[int, ...] | None = None
    alpha: float = 1.0
    beta: float = 0.0
    deterministic: bool = False
    allow_tf32: bool = False
    accuracy: AccuracyClass = AccuracyClass.NORMAL
    bias: bool = False
    add: bool = False
    activation: Activation | None = None
    add_last: bool = False
    y_shape: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        canonicalize(self)
        checks.check_channels(self)
        checks.check_output_padding(self)
        checks.check_layouts(self)
        checks.check_dtypes(self)
        checks.check_epilogue(self)
        object.__setattr__(self, "y_shape", geometry.result_shape(self))
        checks.check_output(self)
        checks.check_tensors(self)

    # -- construction -------------------------------------------------------------------------

    @classmethod
    def forward(cls, x: Sizes, w: Sizes, **options: Unpack[ConvOptions]) -> Self:
        """Describe ``y = conv(x, w)``.

        Args:
            x: shape of the data, (N, C, *spatial), one to three spatial dimensions; N may be 0.
            w: shape of the weights, (K, C/groups, *filter); (C, K/groups, *filter) if transposed.
            **options: ``stride``, ``padding``, ``dilation`` (a number, or one for each axis;
                padding also ``"same"``, ``"valid"`` or (begin, end) pairs), ``groups``, ``mode``,
                ``output_padding``, ``dtype``, ``y_dtype``, ``layout`` (or ``x_layout``,
                ``w_layout``, ``y_layout``), ``x_strides``, ``w_strides``, ``y_strides`` (in
                elements, N, C, spatial order), ``alpha``, ``beta``, ``bias``, ``add``,
                ``activation``, ``add_last``, ``deterministic``, ``allow_tf32``, ``accuracy``; see
                `ConvOptions` for types and defaults.

        Raises:
            ProblemError: the convolution is impossible; names the field and what is allowed.
        """
        return cls.create(Direction.FORWARD, x, w, **options)

    @classmethod
    def backward_data(cls, x: Sizes, w: Sizes, **options: Unpack[ConvOptions]) -> Self:
        """Describe the gradient with respect to ``x``; arguments as for `forward`."""
        return cls.create(Direction.BACKWARD_DATA, x, w, **options)

    @classmethod
    def backward_weights(cls, x: Sizes, w: Sizes, **options: Unpack[ConvOptions]) -> Self:
        """Describe the gradient with respect to ``w``; arguments as for `forward`."""
        return cls.create(Direction.BACKWARD_WEIGHTS, x, w, **options)

    @classmethod
    def create(
        cls,
        direction: Direction | str,
        x: Sizes,
        w: Sizes,
        **options: Unpack[ConvOptions],
    ) -> Self:
        """Describe a convolution in any direction; see `forward` for the arguments."""
        # The constructor checks what is not checked there, and brings it into its one spelling.
        return cls(direction=direction, **fields_of(x, w, options))  # type: ignore[arg-type]

    @classmethod
    def from_driver(cls, line: str) -> ConvProblem:
        """Read a MIOpenDriver command line; if it asks for several directions, the first one."""
        from convfind.problem.syntax.driver_line import read_driver_line

        return read_driver_line(line, cls)[0]

    @classmethod
    def from_key(cls, text: str) -> ConvProblem:
        """Read a canonical network config, as `key` or `text` say it, or a MIOpen find-db key."""
        from convfind.problem.syntax.recognize import read_key

        return read_key(text, cls)

    def with_direction(self, direction: Direction | str) -> ConvProblem:
        """Return the same convolution in another direction."""
        return replace(self, direction=enum_value("direction", Direction, direction))

    def with_batch(self, batch: int) -> ConvProblem:
        """Return the same convolution with another batch size; x and y become packed."""
        batch = integer("batch", batch, least=0)
        return replace(self, x_shape=(batch, *self.x_shape[1:]), x_strides=None, y_strides=None)

    def with_epilogue(
        self,
        *,
        bias: bool = False,
        add: bool = False,
        activation: Activation | None = None,
        add_last: bool = False,
    ) -> ConvProblem:
        """Return the same convolution with more done to its result."""
        changes: dict[str, Any] = {"bias": True} if bias else {}
        if add and not self.add:
            changes |= {"add": True, "beta": 1.0}
        if activation is not None:
            changes["activation"] = activation
        if add_last:
            changes["add_last"] = True
        return replace(self, **changes) if changes else self

    # -- derived ------------------------------------------------------------------------------

    @property
    def spatial_rank(self) -> int:
        """Number of spatial dimensions, 1 to 3."""
        return len(self.x_shape) - 2

    @property
    def plain_direction(self) -> Direction:
        """Direction of the ordinary convolution that computes the same numbers."""
        return _FLIPPED[self.direction] if self.mode is ConvMode.TRANSPOSE else self.direction

    @property
    def filter(self) -> tuple[int, ...]:
        """Spatial size of the filter."""
        return self.w_shape[2:]

    @property
    def layout(self) -> Layout:
        """Layout of the data tensor; see also `layouts_agree`."""
        return self.x_layout

    @cached_property
    def traits(self) -> frozenset[str]:
        """Traits of the problem, in terms of which solvers declare their domains.

        Solvers receive ``plain().traits``.
        """
        return traits_of(self)

    @cached_property
    def domain_key(self) -> Hashable:
        """All that a domain looks at: equal ones have the same solvers."""
        return (self.direction, self.dtype, self.x_layout, self.traits)

    @cached_property
    def layouts_agree(self) -> bool:
        """True if x, w and y share one layout."""
        return self.x_layout is self.w_layout is self.y_layout

    @cached_property
    def is_packed(self) -> bool:
        """True if no tensor has gaps."""
        return self.x_strides is None and self.w_strides is None and self.y_strides is None

    @property
    def is_empty(self) -> bool:
        """True for a batch of 0: x and y have no elements, and the gradient of w is 0."""
        return self.x_shape[0] == 0

    @property
    def has_default_scaling(self) -> bool:
        """True if alpha is 1 and beta is 0."""
        return self.alpha == 1.0 and self.beta == 0.0

    @property
    def reads_result(self) -> bool:
        """True if the previous contents of the result are added."""
        return self.beta != 0.0 and not self.add

    @property
    def adds_z(self) -> bool:
        """True if the operand ``z`` is added; with a beta of 0 nobody reads it."""
        return self.beta != 0.0 and self.add

    @property
    def is_fused(self) -> bool:
        """True if there is more to a result than alpha, beta and its previous contents."""
        return self.bias or self.add or self.activation is not None

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The names of the operands that a run takes, in their order."""
        more = (name for name, has in (("bias", self.bias), ("z", self.add)) if has)
        return (*self.direction.reads, *more)

    def without_epilogue(self) -> ConvProblem:
        """Return the problem without bias, added tensor and activation."""
        if not self.is_fused:
            return self
        beta = 0.0 if self.add else self.beta
        return replace(self, bias=False, add=False, activation=None, add_last=False, beta=beta)

    def without_activation(self) -> ConvProblem:
        """Return the problem up to its activation: without that, and without a z behind it."""
        if not self.add_last:
            return replace(self, activation=None)
        return replace(self, activation=None, add=False, add_last=False, beta=0.0)

    @cached_property
    def is_pointwise(self) -> bool:
        """True for a 1x1 filter with stride 1 and no padding, whatever the dilation: a GEMM."""
        return geometry.is_pointwise(self)

    @cached_property
    def has_idle_taps(self) -> bool:
        """True if a tap of the filter is multiplied only by padding; every tap is checked.

        Tile transforms spread rounding error even to results that this tap does not affect.
        """
        return geometry.has_idle_taps(self.plain())

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """The name of the result."""
        return (self.direction.writes,)

    @property
    def operands(self) -> tuple[TensorSpec, ...]:
        """Every tensor that is read or written."""
        return tuple(self._operands.values())

    def operand(self, name: str) -> TensorSpec:
        """Return the operand of a name. Raises `KeyError`."""
        return self._operands[name]

    @cached_property
    def _operands(self) -> dict[str, TensorSpec]:
        return {name: self._operand(name) for name in (*self.reads, *self.writes)}

    def _operand(self, name: str) -> TensorSpec:
        shape, layout = self.shape(name), self.tensor_layout(name)
        is_vector = len(shape) == 1  # has no order of axes
        return TensorSpec(
            *(name, shape, self.tensor_dtype(name), self.strides(name)),
            layout=None if is_vector else layout,
        )

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of an operand in N, C, spatial order; of a bias its number of elements."""
        if tensor == "bias":
            return (self.shape(self.direction.writes)[1],)
        shapes = {"x": self.x_shape, "w": self.w_shape, "y": self.y_shape}
        return shapes[self._lies_as(tensor)]

    def tensor_layout(self, tensor: str) -> Layout:
        """Layout of an operand."""
        layouts = {"x": self.x_layout, "w": self.w_layout, "y": self.y_layout}
        return layouts[self._lies_as(tensor)]

    def tensor_dtype(self, tensor: str) -> DataType:
        """Element type of an operand."""
        return self.y_dtype if self._lies_as(tensor) == "y" else self.dtype

    def _lies_as(self, tensor: str) -> str:
        """The tensor of the convolution that an operand has the form of, of a bias the type."""
        return self.direction.writes if tensor in ("bias", "z") else tensor

    def strides(self, tensor: str) -> tuple[int, ...]:
        """Strides in elements, N, C, spatial order, given or packed."""
        if tensor == "bias":
            return (1,)
        given = {"x": self.x_strides, "w": self.w_strides, "y": self.y_strides}[
            self._lies_as(tensor)
        ]
        if given is not None:
            return given
        return self.tensor_layout(tensor).packed_strides(self.shape(tensor))

    def elements(self, tensor: str) -> int:
        """Elements that the tensor spans in memory, gaps included."""
        return math.prod(self.shape(tensor)) if self.is_packed else self._operand(tensor).span

    def nbytes(self, tensor: str) -> int:
        """Bytes that the tensor spans in memory, gaps included."""
        return self.elements(tensor) * self.tensor_dtype(tensor).size

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulate operations of the direct formula (padding counted)."""
        plain = self.plain()
        return math.prod(plain.y_shape) * math.prod(plain.w_shape[1:])

    @property
    def flops(self) -> int:
        """Floating-point operations of the direct formula: two for each multiply-accumulate."""
        return 2 * self.macs

    @cached_property
    def traffic(self) -> int:
        """Bytes that any algorithm must move: each tensor once."""
        return sum(self.nbytes(name) for name in (*self.reads, self.direction.writes))

    @cached_property
    def reduction(self) -> int:
        """Products summed for one element of the result."""
        return geometry.length_of_sums(self.plain())

    @cached_property
    def key(self) -> str:
        """The network config: the canonical text that addresses this problem in a database.

        The numbers of an activation are no part of it, for no time depends on them.
        """
        return format_network_config(self)

    @cached_property
    def text(self) -> str:
        """The key with all that makes up the value: also the numbers of an activation."""
        return self.key if self.activation is None else format_problem(self)

    def __str__(self) -> str:
        return self.text

    # -- transposed convolution -----------------------------------------------------------------

    def plain(self) -> ConvProblem:
        """Return the ordinary convolution that computes the same numbers.

        A transposed convolution is the data gradient of an ordinary one with x and y exchanged
        (its data gradient is that convolution's forward pass). An ordinary problem returns
        itself. Solvers and databases see plain problems only; `to_plain_tensors` renames tensors.
        """
        if self.mode is ConvMode.CONVOLUTION:
            return self
        return self._plain_of_transposed

    @cached_property
    def _plain_of_transposed(self) -> ConvProblem:
        return replace(self, **geometry.plain_fields(self))

    def plain_name(self, tensor: str) -> str:
        """Name, in the plain problem, of an operand of this problem."""
        if self.mode is ConvMode.CONVOLUTION:
            return tensor
        return {"x": "y", "y": "x"}.get(tensor, tensor)
