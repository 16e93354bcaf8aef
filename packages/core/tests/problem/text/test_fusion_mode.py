"""Fusion plans of MIOpenDriver: ``CBAInfer`` and what its modes do."""

from __future__ import annotations

import pytest

from convfind.errors import ProblemError
from convfind.problem import Activation, ConvProblem
from convfind.problem.text import parse_driver_line, parse_problem
from convfind.types import DataType

SIZES = "-n 16 -c 64 -H 28 -W 28 -k 32 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2"
PLAIN = ConvProblem.forward((16, 64, 28, 28), (32, 64, 3, 3), padding=1, stride=2)


@pytest.mark.parametrize(
    ("mode", "bias", "activation"),
    [
        ("-F 0 -M 1", True, "relu"),  # CBNA: the norm is in weights and bias
        ("-F 1 -M 1", True, "relu"),
        ("-F 3 -M 1", True, None),
        ("-F 4", True, "relu"),
        ("-F 5", False, "relu"),
        ("-F 6", True, None),
        ("--fusion_mode 4 --activMode 0", True, None),
        ("-F 4 -m 1", True, "sigmoid"),
        ("-F 4 -m 2 -A 0.5 -B 2", True, "tanh:0.5,2"),
        ("-F 4 -m 4", True, "softplus"),
        ("-F 4 -m 5", True, "abs"),
        ("-F 4 -m 6 -A 1 -B 2 -G 3", True, "power:1,2,3"),
        ("-F 4 -m 7 -A 6", True, "clip:0,6"),
        ("-F 4 -m 8 -A 0.1", True, "leaky:0.1"),
        ("-F 5 -m 9 --alpha 0.3", False, "elu:0.3"),
    ],
)
def test_each_mode_says_what_is_done_to_the_results(
    mode: str, bias: bool, activation: str | None
) -> None:
    (problem,) = parse_driver_line(f"MIOpenDriver CBAInfer {SIZES} {mode}")
    expected = None if activation is None else Activation.parse(activation)
    assert problem == PLAIN.with_epilogue(bias=bias, activation=expected)


def test_defaults_are_those_of_the_fusion_driver() -> None:
    (problem,) = parse_problem("CBAInferfp16 -F 4")
    assert problem.x_shape == (32, 3, 32, 32)
    assert problem.w_shape == (32, 3, 3, 3)
    assert problem.dtype is DataType.FLOAT16


@pytest.mark.parametrize("pad_mode", ["conv", "default"])
def test_padding_is_as_given_unless_a_mode_says_otherwise(pad_mode: str) -> None:
    (given,) = parse_driver_line(f"CBAInfer -F 6 -p 2 -q 1 -z {pad_mode}")
    assert given.padding == (2, 1)
    (same,) = parse_driver_line("CBAInfer -F 6 -p 2 -q 1 -z same")
    assert same.padding == (1, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-F 2 -M 1", "fusion_mode"),  # no convolution
        ("-F 7", "fusion_mode"),
        ("", "bnMode"),  # a scale and a shift for each activation
        ("-F 3 -M 0", "bnMode"),
        ("-F 4 -m 10", "activMode"),
        ("-F 4 -A x", "alpha"),
        ("-F 4 -A nan", "alpha"),
        ("-F 4 -A", "alpha"),
        ("-F 4 --forw 1", "driver line"),
        ("-F 4 -g 2", "group_count"),
        ("-F 4 -r 1", "pad_val"),
    ],
)
def test_plans_that_are_no_fused_convolution_are_refused(line: str, message: str) -> None:
    with pytest.raises(ProblemError, match=f"^{message}: "):
        parse_driver_line(f"CBAInfer {line}")
