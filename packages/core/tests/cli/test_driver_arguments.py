"""An unquoted MIOpenDriver line among the program's own options."""

from __future__ import annotations

import click
import pytest

from convfind.cli.driver_arguments import join_driver_line

OPTIONS = {"--json": True, "--device": False, "--mode": False, "-n": False}


@pytest.mark.parametrize(
    ("arguments", "joined"),
    [
        ("--json conv -n 4 -c 3", ["--json", "conv -n 4 -c 3"]),
        ("-n 2 conv -n 4", ["-n", "2", "conv -n 4"]),
        ("conv -n 4 --json", ["--json", "conv -n 4"]),
        ("conv -n 4 --device opencl:0 -c 3", ["--device", "opencl:0", "conv -n 4 -c 3"]),
        ("conv --device=opencl:0 -n 4", ["--device=opencl:0", "conv -n 4"]),
        ("conv -n 4 --device", ["--device", "conv -n 4"]),
        ("conv -n 4 --mode trans", ["conv -n 4 --mode trans"]),
        ("conv --mode conv -n 4", ["conv --mode conv -n 4"]),
        ("conv -n 4 --mode FAST", ["--mode", "FAST", "conv -n 4"]),
        ("conv --mode=5 -n 4 --mode trans", ["--mode=5", "conv -n 4 --mode trans"]),
        ("conv --mode deconv", ["--mode", "deconv", "conv"]),
        ("--device conv conv -n 4", ["--device", "conv", "conv -n 4"]),
        ("--device=conv conv -n 4", ["--device=conv", "conv -n 4"]),
        ("conv -p -1 --json", ["--json", "conv -p -1"]),
        ("-- conv -n 4", ["--", "conv -n 4"]),
        ("conv -n 4 --spatial_dim 3", ["conv -n 4 --spatial_dim 3"]),
        ("/opt/bin/MIOpenDriver convfp16 -F 1", ["/opt/bin/MIOpenDriver convfp16 -F 1"]),
        ("MIOpenDriver.exe convint8", ["MIOpenDriver.exe convint8"]),
        ("--json --device x", ["--json", "--device", "x"]),
        ("convolution.npy -n 4", ["convolution.npy", "-n", "4"]),
    ],
)
def test_joining(arguments: str, joined: list[str]) -> None:
    assert join_driver_line(arguments.split(), OPTIONS) == joined


@pytest.mark.parametrize(
    ("word", "near"),
    [("--devise", "--device"), ("--pad", "--pad_h"), ("--out_chanels", "--out_channels")],
)
def test_a_long_option_of_neither_is_refused_with_similar_ones(word: str, near: str) -> None:
    with pytest.raises(click.NoSuchOption) as caught:
        join_driver_line(["conv", "-n", "4", word, "3"], OPTIONS)
    assert near in (caught.value.possibilities or ())


def test_a_quoted_line_is_left_alone() -> None:
    assert join_driver_line(["conv -n 4", "--json"], OPTIONS) == ["conv -n 4", "--json"]
