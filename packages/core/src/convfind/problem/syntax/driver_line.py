"""MIOpenDriver's command line, e.g. ``conv -n 64 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -F 1``.

A fusion plan, ``CBAInfer -F 4 -n 64 ...``, is a forward problem with bias and activation.
Flags that say how the driver runs (iterations, verification, files) are read and ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from convfind.errors import ProblemError
from convfind.problem.syntax.driver_flags import FUSION_FLAGS, read_flags
from convfind.problem.syntax.fusion_mode import epilogue_of
from convfind.problem.syntax.miopens_limits import refuse_unspeakable
from convfind.problem.syntax.sizes import checked_text, parse_size
from convfind.types import ConvMode, DataType, Direction, Layout

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem

_DTYPES = {
    "conv": DataType.FLOAT32,
    "convfp16": DataType.FLOAT16,
    "convbfp16": DataType.BFLOAT16,
    "convint8": DataType.INT8,
}
_FUSED_DTYPES = {"CBAInfer": DataType.FLOAT32, "CBAInferfp16": DataType.FLOAT16}
_BASE_WORD = {dtype: word for word, dtype in _DTYPES.items()}
#: Values of ``--mode``.
MODES = {"conv": ConvMode.CONVOLUTION, "trans": ConvMode.TRANSPOSE}
_DIRECTION_BITS = {
    Direction.FORWARD: 1,
    Direction.BACKWARD_DATA: 2,
    Direction.BACKWARD_WEIGHTS: 4,
}
# A "#" begins a comment at the start of a word only: "-#" is the flag of the stride in depth.
_COMMENT = re.compile(r"(^|\s)#.*", re.DOTALL)
_PROGRAM = re.compile(r"(?:.*[/\\])?MIOpenDriver(?:\.exe)?")
_AXES = ("d", "h", "w")


def is_driver_line(text: str) -> bool:
    """Return whether a text begins like a driver line."""
    words = text.split(maxsplit=1)
    return bool(words) and (
        _PROGRAM.fullmatch(words[0]) is not None or words[0].startswith(("conv", "CBAInfer"))
    )


def read_driver_line(line: str, problem_type: type[ConvProblem]) -> tuple[ConvProblem, ...]:
    """Read a command line; return one problem for each direction that ``-F`` requests.

    0 requests all directions, for int8 only forward, since int8 has no gradients. The program's
    name may come first, a comment last.

    Raises:
        ProblemError: names the flag and what it may be.
    """
    words = _COMMENT.sub("", checked_text("driver line", line)).split()
    if words and _PROGRAM.fullmatch(words[0]):
        del words[0]
    if words and words[0] in _FUSED_DTYPES:
        return (_fused_problem(words[1:], _FUSED_DTYPES[words[0]], problem_type),)
    if not words or words[0] not in _DTYPES:
        commands = "|".join((*_DTYPES, *_FUSED_DTYPES))
        raise ProblemError("driver line", line.strip(), f"[MIOpenDriver] {commands}, then flags")
    dtype = _DTYPES[words[0]]
    values = read_flags(words[1:])
    problem = _problem(values, dtype, problem_type)
    return tuple(
        problem.with_direction(direction) for direction in _directions(values["forw"], dtype)
    )


def _fused_problem(
    words: list[str], dtype: DataType, problem_type: type[ConvProblem]
) -> ConvProblem:
    values = read_flags([]) | read_flags(words, FUSION_FLAGS)
    values["pad_mode"] = "default" if values["pad_mode"] == "conv" else values["pad_mode"]
    return _problem(values, dtype, problem_type).with_epilogue(**epilogue_of(values))


def _directions(forw: str, dtype: DataType) -> list[Direction]:
    bits = parse_size("forw", forw)
    if bits > 7:
        raise ProblemError("forw", bits, "0 (all), or a sum of 1 (fwd), 2 (bwd), 4 (wrw)")
    if bits == 0:
        return [Direction.FORWARD] if dtype is DataType.INT8 else list(Direction)
    return [direction for direction, bit in _DIRECTION_BITS.items() if bits & bit]


def _problem(
    values: dict[str, str], dtype: DataType, problem_type: type[ConvProblem]
) -> ConvProblem:
    """Return the forward problem."""
    rank = parse_size("spatial_dim", values["spatial_dim"])
    if rank not in (2, 3):
        raise ProblemError("spatial_dim", rank, "2 or 3")
    axes = _AXES[-rank:]

    def size(name: str, least: int) -> int:
        number = parse_size(name, values[name])
        if number < least:
            raise ProblemError(name, number, f"at least {least}")
        return number

    def sizes(name: str, least: int) -> tuple[int, ...]:
        return tuple(size(f"{name}_{axis}", least) for axis in axes)

    mode = MODES.get(values["mode"])
    if mode is None:
        raise ProblemError("mode", values["mode"], " or ".join(MODES))
    groups = size("group_count", 1)
    channels, out_channels = size("in_channels", 1), size("out_channels", 1)
    for name, count in (("in_channels", channels), ("out_channels", out_channels)):
        if count % groups:
            raise ProblemError("group_count", groups, f"a divisor of {name}, which is {count}")
    first, second = channels, out_channels
    if mode is ConvMode.CONVOLUTION:
        first, second = second, first
    x = (size("batchsize", 1), channels, *sizes("in", 1))
    w = (first, second // groups, *sizes("fil", 1))
    stride, dilation = sizes("conv_stride", 1), sizes("dilation", 1)
    output_padding = sizes("trans_output_pad", 0)
    return problem_type.forward(
        x,
        w,
        stride=stride,
        padding=_padding(values["pad_mode"], sizes("pad", 0), mode, x[2:], w[2:], stride, dilation),
        dilation=dilation,
        groups=groups,
        mode=mode,
        output_padding=output_padding if mode is ConvMode.TRANSPOSE else 0,
        dtype=dtype,
        **_layouts(values, rank),
    )


def _padding(
    pad_mode: str,
    given: tuple[int, ...],
    mode: ConvMode,
    x_spatial: tuple[int, ...],
    filter_size: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """Return the padding at both ends; the driver's ``same`` drops the odd one of an odd total."""
    if pad_mode == "default":
        return given
    if pad_mode not in ("same", "valid"):
        raise ProblemError("pad_mode", pad_mode, "default, same or valid")
    is_dilated = max(dilation) > 1 and max(filter_size) > 1
    if mode is ConvMode.TRANSPOSE or is_dilated:
        # The driver silently takes pad_d, pad_h and pad_w here.
        raise ProblemError("pad_mode", pad_mode, "default where mode is trans or with dilation")
    if pad_mode == "valid":
        return (0,) * len(given)
    return tuple(
        max(size - (x % step or step), 0) // 2
        for x, size, step in zip(x_spatial, filter_size, stride, strict=True)
    )


def _layouts(values: dict[str, str], rank: int) -> dict[str, Any]:
    legal = [layout.value for layout in Layout if layout.spatial_rank == rank]
    layouts: dict[str, Any] = {}
    for name, flag in (("x", "in_layout"), ("w", "fil_layout"), ("y", "out_layout")):
        word = values[flag].upper() or legal[0]
        if word not in legal:
            raise ProblemError(
                flag, values[flag], f"{' or '.join(legal)} where spatial_dim is {rank}"
            )
        layouts[f"{name}_layout"] = word
    return layouts


def format_driver_line(problem: ConvProblem) -> str:
    """Return the command line of a problem, without the program's name.

    Raises:
        ProblemError: the driver has no flag for a property of the problem.
    """
    refuse_unspeakable(problem, "driver line")
    if problem.dtype not in _BASE_WORD:
        raise ProblemError("dtype", problem.dtype.value, ", ".join(_BASE_WORD))
    if problem.y_dtype is not problem.dtype.result:
        raise ProblemError(
            "y_dtype", problem.y_dtype.value, f"{problem.dtype.result} in a driver line"
        )
    batch, channels, *x_spatial = problem.x_shape
    words = [_BASE_WORD[problem.dtype], f"-n {batch} -c {channels}"]
    if problem.spatial_rank == 3:
        words.append(f"--spatial_dim 3 --in_d {x_spatial[0]} --fil_d {problem.filter[0]}")
        words.append(f"--pad_d {problem.padding[0]} --conv_stride_d {problem.stride[0]}")
        words.append(f"--dilation_d {problem.dilation[0]}")
    words.append("-H {} -W {}".format(*x_spatial[-2:]))
    words.append(f"-k {problem.y_shape[1]}")
    words.append("-y {} -x {}".format(*problem.filter[-2:]))
    words.append("-p {} -q {}".format(*problem.padding[-2:]))
    words.append("-u {} -v {}".format(*problem.stride[-2:]))
    words.append("-l {} -j {}".format(*problem.dilation[-2:]))
    words.append("-m trans" if problem.mode is ConvMode.TRANSPOSE else "-m conv")
    if any(problem.output_padding):
        words += [
            f"--trans_output_pad_{axis} {more}"
            for axis, more in zip(
                _AXES[-problem.spatial_rank :], problem.output_padding, strict=True
            )
        ]
    words.append(f"-g {problem.groups} -F {_DIRECTION_BITS[problem.direction]}")
    default = Layout.of(problem.spatial_rank)
    for flag, layout in (
        ("in_layout", problem.x_layout),
        ("fil_layout", problem.w_layout),
        ("out_layout", problem.y_layout),
    ):
        if layout is not default:
            words.append(f"--{flag} {layout.value}")
    return " ".join(words)
