"""The flags of MIOpenDriver's ``conv`` and ``CBAInfer``: names, short names, defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from convfind.arguments import similar
from convfind.errors import ProblemError


class FlagKind(Enum):
    """Meaning of a flag's value."""

    NUMBER = auto()  # a whole number that describes the problem
    DECIMAL = auto()  # any finite number that describes the problem
    WORD = auto()  # a word that describes the problem
    FIXED = auto()  # describes a problem that only its default makes possible here
    RUN_NUMBER = auto()  # a whole number that says how the driver runs: read and ignored
    RUN_WORD = auto()  # a word that says how the driver runs: ignored


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: ``--long value`` or ``-s value``."""

    long: str
    short: str
    default: str
    kind: FlagKind = FlagKind.NUMBER


FLAGS = (
    Flag("batchsize", "n", "100"),
    Flag("in_channels", "c", "3"),
    Flag("in_d", "!", "32"),
    Flag("in_h", "H", "32"),
    Flag("in_w", "W", "32"),
    Flag("out_channels", "k", "32"),
    Flag("fil_d", "@", "3"),
    Flag("fil_h", "y", "3"),
    Flag("fil_w", "x", "3"),
    Flag("pad_d", "$", "0"),
    Flag("pad_h", "p", "0"),
    Flag("pad_w", "q", "0"),
    Flag("conv_stride_d", "#", "1"),
    Flag("conv_stride_h", "u", "1"),
    Flag("conv_stride_w", "v", "1"),
    Flag("dilation_d", "^", "1"),
    Flag("dilation_h", "l", "1"),
    Flag("dilation_w", "j", "1"),
    Flag("trans_output_pad_d", "%", "0"),
    Flag("trans_output_pad_h", "Y", "0"),
    Flag("trans_output_pad_w", "X", "0"),
    Flag("group_count", "g", "1"),
    Flag("spatial_dim", "_", "2"),
    Flag("forw", "F", "0"),
    Flag("mode", "m", "conv", FlagKind.WORD),
    Flag("pad_mode", "z", "default", FlagKind.WORD),
    Flag("in_layout", "I", "", FlagKind.WORD),
    Flag("fil_layout", "f", "", FlagKind.WORD),
    Flag("out_layout", "O", "", FlagKind.WORD),
    Flag("pad_val", "r", "0", FlagKind.FIXED),
    Flag("tensor_vect", "Z", "0", FlagKind.FIXED),
    Flag("vector_length", "L", "1", FlagKind.FIXED),
    Flag("bias", "b", "0", FlagKind.FIXED),
    Flag("in_cast_type", "U", "-1", FlagKind.FIXED),
    Flag("wei_cast_type", "R", "-1", FlagKind.FIXED),
    Flag("out_cast_type", "T", "-1", FlagKind.FIXED),
    Flag("iter", "i", "10", FlagKind.RUN_NUMBER),
    Flag("verify", "V", "1", FlagKind.RUN_NUMBER),
    Flag("time", "t", "0", FlagKind.RUN_NUMBER),
    Flag("wall", "w", "0", FlagKind.RUN_NUMBER),
    Flag("search", "s", "0", FlagKind.RUN_NUMBER),
    Flag("printconv", "P", "1", FlagKind.RUN_NUMBER),
    Flag("dump_output", "o", "0", FlagKind.RUN_NUMBER),
    Flag("gpualloc", "G", "0", FlagKind.RUN_NUMBER),
    Flag("solution", "S", "-1", FlagKind.RUN_WORD),
    Flag("verification_cache", "C", "", FlagKind.RUN_WORD),
    Flag("in_data", "d", "", FlagKind.RUN_WORD),
    Flag("weights", "e", "", FlagKind.RUN_WORD),
    Flag("dout_data", "D", "", FlagKind.RUN_WORD),
    Flag("in_bias", "a", "", FlagKind.RUN_WORD),
)

_ALSO_OF_FUSION = (
    *("in_channels", "in_h", "in_w", "out_channels", "group_count", "fil_h", "fil_w"),
    *("conv_stride_h", "conv_stride_w", "pad_h", "pad_w", "pad_val", "pad_mode"),
    *("dilation_h", "dilation_w"),
    *("iter", "verify", "time", "wall", "search", "printconv"),
)
#: Those of ``CBAInfer``.
FUSION_FLAGS = (
    *(flag for flag in FLAGS if flag.long in _ALSO_OF_FUSION),
    Flag("batchsize", "n", "32"),
    Flag("fusion_mode", "F", "0"),
    Flag("activMode", "m", "3"),
    Flag("bnMode", "M", "0"),
    Flag("alpha", "A", "1.0", FlagKind.DECIMAL),
    Flag("beta", "B", "0.", FlagKind.DECIMAL),
    Flag("gamma", "G", "1", FlagKind.DECIMAL),
    Flag("dot_graph", "D", "", FlagKind.RUN_WORD),
)


def read_flags(words: list[str], flags: Sequence[Flag] = FLAGS) -> dict[str, str]:
    """Return the value of every flag by its long name; a flag given twice has its last value.

    Raises:
        ProblemError: an unknown flag, one without a value, or a value that is no number.
    """
    by_word = {f"--{flag.long}": flag for flag in flags}
    by_word |= {f"-{flag.short}": flag for flag in flags}
    values = {flag.long: flag.default for flag in flags}
    rest = iter(words)
    for word in rest:
        flag = by_word.get(word)
        if flag is None:
            raise ProblemError("driver line", word, _near(word, flags))
        value = next(rest, None)
        if value is None or value in by_word:
            raise ProblemError(flag.long, value, f"a value after {word}")
        _check_value(flag, value)
        values[flag.long] = value
    return values


def _check_value(flag: Flag, value: str) -> None:
    if flag.kind is FlagKind.FIXED and value != flag.default:
        raise ProblemError(flag.long, value, f"{flag.default}: nothing else is supported")
    numeric = flag.kind in (FlagKind.NUMBER, FlagKind.RUN_NUMBER)
    if numeric and not (value.removeprefix("-").isdecimal() and value.isascii()):
        raise ProblemError(flag.long, value, "a whole number")
    if flag.kind is FlagKind.DECIMAL and not _is_finite(value):
        raise ProblemError(flag.long, value, "a number")


def _is_finite(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _near(word: str, flags: Sequence[Flag]) -> str:
    """Suggest flags that resemble a word."""
    near = similar(word.lstrip("-"), [flag.long for flag in flags])
    if near:
        return ", ".join(f"--{name}" for name in near)
    return "the flags of MIOpenDriver, such as --batchsize, -c, --in_h, -k, --fil_h"
