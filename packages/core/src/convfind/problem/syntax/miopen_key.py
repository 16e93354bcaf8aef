"""MIOpen's find-db key, e.g. ``64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F_g2``.

2-D: ``C-H-W-YxX-K-Ho-Wo-N-pad-stride-dilation-bias-layout-dtype-direction[options]``; 3-D has D, Do
and Z before H, Ho and Y. C, H, W belong to what is read and K, Ho, Wo to what is written, so in the
backward directions (B, W) they are those of y and of x. Layout is one token where all tensors have
the default one, else three; the data types are one word if they are equal, else three in a row:
the tensor that is read, the weights, the tensor that is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from convfind.errors import ProblemError
from convfind.problem.syntax.miopens_limits import refuse_unspeakable
from convfind.problem.syntax.sizes import format_sizes, parse_size, parse_sizes
from convfind.types import DataType, Direction, Layout

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem

_DIRECTIONS = {
    "F": Direction.FORWARD,
    "B": Direction.BACKWARD_DATA,
    "W": Direction.BACKWARD_WEIGHTS,
}
_DIRECTION_LETTER = {direction: letter for letter, direction in _DIRECTIONS.items()}
_DTYPES = {
    "FP64": DataType.FLOAT64,
    "FP32": DataType.FLOAT32,
    "FP16": DataType.FLOAT16,
    "BF16": DataType.BFLOAT16,
    "INT8": DataType.INT8,
    "INT32": DataType.INT32,
}
_DTYPE_WORD = {dtype: word for word, dtype in _DTYPES.items()}
_DTYPE = re.compile("|".join(_DTYPES))
_DEFAULT_LAYOUT = {2: Layout.NCHW, 3: Layout.NCDHW}
_FORM = "C-[D-]H-W-[Zx]YxX-K-[Do-]Ho-Wo-N-padding-stride-dilation-0-layout-dtype-<F|B|W>[_g2]"


def _pattern(rank: int) -> re.Pattern[str]:
    dashed = rf"[0-9]+(?:-[0-9]+){{{rank}}}"
    crossed = rf"[0-9]+(?:x[0-9]+){{{rank - 1}}}"
    return re.compile(
        rf"(?P<read>{dashed})-(?P<filter>{crossed})-(?P<written>{dashed})-(?P<batch>[0-9]+)"
        rf"-(?P<padding>{crossed})-(?P<stride>{crossed})-(?P<dilation>{crossed})-(?P<bias>[0-9]+)"
        r"-(?P<layouts>\w+(?:-\w+-\w+)?)-(?P<dtype>[A-Z0-9]+)-(?P<direction>[FBW])(?P<options>_\w+)?"
    )


_PATTERNS = (_pattern(2), _pattern(3))


def format_miopen_key(problem: ConvProblem) -> str:
    """Return the key of a problem; for a transposed one, the key of its plain problem.

    Raises:
        ProblemError: the key cannot express a property of the problem.
    """
    refuse_unspeakable(problem, "MIOpen key")
    problem = problem.plain()
    read, written = _in_and_out(problem.direction)
    names = (read, "w", written)
    layouts = [problem.tensor_layout(name).value for name in names]
    if set(layouts) == {_DEFAULT_LAYOUT[problem.spatial_rank].value}:
        del layouts[1:]
    words = [_DTYPE_WORD[problem.tensor_dtype(name)] for name in names]
    fields = (
        *problem.shape(read)[1:],
        format_sizes(problem.filter),
        *problem.shape(written)[1:],
        problem.x_shape[0],
        format_sizes(problem.padding),
        format_sizes(problem.stride),
        format_sizes(problem.dilation),
        0,
        *layouts,
        words[0] if len(set(words)) == 1 else "".join(words),
        _DIRECTION_LETTER[problem.direction],
    )
    options = f"_g{problem.groups}" if problem.groups != 1 else ""
    return "-".join(map(str, fields)) + options


def read_miopen_key(text: str, problem_type: type[ConvProblem]) -> ConvProblem:
    """Read a find-db key.

    Raises:
        ProblemError: the text is no key, its sizes contradict each other, or it asks for something
            that convfind does not have: bias, cast types, 8-bit floats, int8 results.
    """
    found = next(filter(None, (pattern.fullmatch(text) for pattern in _PATTERNS)), None)
    if found is None:
        raise ProblemError("MIOpen key", text, _FORM)
    if found["bias"] != "0":
        raise ProblemError("bias", found["bias"], "0")
    direction = _DIRECTIONS[found["direction"]]
    groups = _parse_options(found["options"] or "")
    shape = dict(
        zip(
            _in_and_out(direction),
            (parse_sizes("MIOpen key", found[side], "-") for side in ("read", "written")),
            strict=True,
        )
    )
    channels = shape["x"][0]
    if channels % groups:
        raise ProblemError("groups", groups, f"a divisor of the {channels} channels of x")
    x_dtype, y_dtype = _parse_dtypes(direction, found["dtype"])
    layouts = _parse_layouts(direction, found["layouts"], len(shape["x"]) - 1)
    problem = problem_type.create(
        direction,
        (parse_size("batch", found["batch"]), *shape["x"]),
        (shape["y"][0], channels // groups, *parse_sizes("filter", found["filter"])),
        stride=parse_sizes("stride", found["stride"]),
        padding=parse_sizes("padding", found["padding"]),
        dilation=parse_sizes("dilation", found["dilation"]),
        groups=groups,
        dtype=x_dtype,
        y_dtype=y_dtype,
        x_layout=layouts["x"],
        w_layout=layouts["w"],
        y_layout=layouts["y"],
    )
    if problem.y_shape[1:] != shape["y"]:
        raise ProblemError(
            "y",
            shape["y"],
            f"{problem.y_shape[1:]}, what x {shape['x']} gives in the MIOpen key {text}",
        )
    spelling = format_miopen_key(problem)
    if spelling != text:
        raise ProblemError("MIOpen key", text, f"MIOpen's own spelling, {spelling}")
    return problem


def _in_and_out(direction: Direction) -> tuple[str, str]:
    return ("x", "y") if direction is Direction.FORWARD else ("y", "x")


def _parse_options(text: str) -> int:
    """Return the groups; the other options are cast types."""
    groups = 1
    for option in text.split("_")[1:]:
        if not option.startswith("g"):
            raise ProblemError("options", f"_{option}", "_g<groups>; there are no cast types")
        groups = parse_size("groups", option[1:])
    if groups < 1:
        raise ProblemError("groups", groups, "at least 1")
    return groups


def _parse_layouts(direction: Direction, text: str, rank: int) -> dict[str, Layout]:
    legal = [layout.value for layout in Layout if layout.spatial_rank == rank]
    words = text.split("-")
    for word in words:
        if word not in legal:
            raise ProblemError(
                "layout", word, f"{' or '.join(legal)} with {rank} spatial dimensions"
            )
    read, written = _in_and_out(direction)
    names = dict(zip((read, "w", written), words * (3 // len(words)), strict=True))
    return {name: Layout(word) for name, word in names.items()}


def _parse_dtypes(direction: Direction, text: str) -> tuple[DataType, DataType]:
    """Return the types of x and of y; those of x and of w must agree."""
    words = _DTYPE.findall(text)
    if "".join(words) != text or len(words) not in (1, 3):
        raise ProblemError("dtype", text, f"one or three of {', '.join(_DTYPES)}")
    read, written = _in_and_out(direction)
    names = dict(zip((read, "w", written), words * (3 // len(words)), strict=True))
    if names["x"] != names["w"]:
        raise ProblemError("dtype", text, "one type for both x and w")
    return _DTYPES[names["x"]], _DTYPES[names["y"]]
