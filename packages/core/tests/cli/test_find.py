"""``convfind find``: every way to name a problem, the JSON document, the second find a hit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from convfind.policy import FindMode

SHAPES = ("--x", "2,4,6,6", "--w", "4,4,3,3", "--padding", "1")
LINE = "conv -n 2 -c 4 -H 6 -W 6 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1"
KEY = "fwd-2x4x6x6-4x4x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32"
MIOPEN_KEY = "4-6-6-3x3-4-6-6-2-1x1-1x1-1x1-0-NCHW-FP32-F"


def test_the_second_find_is_a_hit_that_does_nothing(shell: Any) -> None:
    first = shell.json("find", *SHAPES)
    assert first["origin"] == "measured"
    assert first["compiled"] > 0
    assert first["measured"] > 0
    counted = shell.backend.counters.launches
    second = shell.json("find", *SHAPES)
    assert (second["origin"], second["compiled"], second["measured"]) == ("user-db", 0, 0)
    assert shell.backend.counters.launches == counted
    assert [s["solver"] for s in second["solutions"]] == [s["solver"] for s in first["solutions"]]


def test_the_document_has_the_documented_fields(shell: Any) -> None:
    document = shell.json("find", "--mode", "normal", *SHAPES)
    assert list(document) == [
        *("problem", "device", "mode", "origin", "solutions", "rejected"),
        *("compiled", "measured", "elapsed_s", "in_doubt"),
    ]
    assert document["problem"] == KEY
    assert document["mode"] == "NORMAL"
    best = document["solutions"][0]
    required = ["solver", "algorithm", "time_ms", "time_origin", "workspace", "error"]
    assert list(best)[: len(required)] == required
    assert best["time_ms"] > 0
    assert best["time_origin"] == "measured"
    reasons = {entry["solver"]: entry for entry in document["rejected"]}
    assert set(reasons["mock-wrong"]) == {"solver", "reason", "detail"}
    assert reasons["mock-wrong"]["reason"] == "wrong-result"
    assert reasons["mock-broken"]["reason"] == "build-failed"


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(SHAPES, id="options"),
        pytest.param((LINE,), id="quoted line"),
        pytest.param(LINE.split(), id="line"),
        pytest.param(["./bin/MIOpenDriver", *LINE.split()], id="line with program"),
        pytest.param((KEY,), id="network config"),
        pytest.param((MIOPEN_KEY,), id="key"),
        pytest.param(("-n", "2", LINE.replace("-n 2", "-n 64")), id="batch"),
        pytest.param(("--direction", "fwd", KEY.replace("fwd", "bwd-data")), id="direction"),
    ],
)
def test_every_way_to_name_a_problem(shell: Any, problem: list[str]) -> None:
    assert shell.json("find", *problem)["problem"] == KEY


def test_every_option_of_the_problem_is_heard(shell: Any) -> None:
    words = (
        "--x 2,4,9,8 --w 6,2,3,3 --stride 2,1 --padding 1,0 --dilation 1,2 --groups 2 "
        "--layout nhwc --deterministic --allow-tf32 --accuracy strict"
    )
    document = shell.json("explain", *words.split())
    assert document["problem"] == (
        "fwd-2x4x9x8-6x2x3x3-s2x1-p1x0-d1x2-g2-NHWC-float32_deterministic:1_tf32:1_accuracy:strict"
    )
    narrow = shell.json("explain", *words.split(), "--dtype", "float16")
    assert narrow["problem"] == (
        "fwd-2x4x9x8-6x2x3x3-s2x1-p1x0-d1x2-g2-NHWC-float16_deterministic:1_accuracy:strict"
    )
    transposed = "--x 1,4,5,5 --w 4,3,3,3 --transpose --stride 2 --output-padding 1"
    assert shell.json("explain", *transposed.split())["problem"].startswith(
        "fwd-1x4x5x5-4x3x3x3-s2x2-p0x0-d1x1-g1-NCHW-float32_mode:transpose"
    )


@pytest.mark.parametrize("option", ["stride", "dilation", "groups"])
def test_a_zero_is_refused_and_not_left_out(shell: Any, option: str) -> None:
    result = shell("find", *SHAPES, f"--{option}", "0", code=2)
    assert result.stderr == f"error: {option}: 0 is not possible; allowed: 1 to {2**40}\n"
    assert "cannot change" in shell("find", "--padding", "0", LINE, code=2).stderr


def test_all_directions_make_a_list(shell: Any) -> None:
    documents = shell.json("find", "--direction", "all", LINE)
    assert [document["problem"].split("-2x4")[0] for document in documents] == [
        "fwd",
        "bwd-data",
        "bwd-weights",
    ]


@pytest.mark.parametrize("word", ["normal", "NORMAL", "1", "fast", "Trust_Verify", "7"])
def test_a_mode_is_a_word_in_any_case_or_a_number(shell: Any, word: str) -> None:
    mode = shell.json("find", "--mode", word, *SHAPES)["mode"]
    assert mode == FindMode.parse(word, "mode").name


def test_fast_without_a_record_estimates(shell: Any) -> None:
    document = shell.json("find", "--mode", "fast", *SHAPES)
    assert document["origin"] == "fallback"
    assert document["solutions"][0]["time_ms"] < 0
    assert shell.backend.counters.launches == 0
    text = shell("find", "--mode", "fast", *SHAPES).stdout
    assert "~" in text
    assert "answered by fallback" in text


def test_filters_and_limits_reach_the_find(shell: Any) -> None:
    only = shell.json("find", "--mode", "normal", "--solver", "mock-hungry", *SHAPES)
    assert [s["solver"] for s in only["solutions"]] == ["mock-hungry"]
    limited = shell.json("find", "--mode", "normal", "--workspace-limit", "0", *SHAPES)
    over = {s["solver"] for s in limited["solutions"] if s["over_limit"]}
    over |= {entry["solver"] for entry in limited["rejected"] if entry["reason"] == "workspace"}
    assert "mock-hungry" in over
    assert limited["solutions"][0]["workspace"] == 0
    ordered = shell.json("find", "--mode", "normal", "--order", "workspace", *SHAPES)
    sizes = [s["workspace"] for s in ordered["solutions"]]
    assert sizes == sorted(sizes)
    unverified = shell.json("find", "--mode", "normal", "--no-verify", *SHAPES)
    assert unverified["solutions"][0]["error"] is None
    tuned = shell.json("find", "--mode", "normal", "--tune", "--solver", "mock-tunable", *SHAPES)
    assert tuned["solutions"][0]["config"]


def test_without_a_solution_the_document_says_why_and_the_command_fails(shell: Any) -> None:
    document = shell.json("find", "--algorithm", "fft", *SHAPES, code=1)
    assert document["solutions"] == []
    assert {entry["reason"] for entry in document["rejected"]} == {"denied"}
    result = shell("find", "--algorithm", "fft", *SHAPES, code=1)
    assert result.stderr.startswith(f"error: no solver takes {KEY} on mock")


def test_people_get_a_table(shell: Any) -> None:
    text = shell("find", "--mode", "normal", *SHAPES).stdout
    for word in (KEY, "mock-dynamic", "GFLOP/s", "measured", "mock-wrong: its result was wrong"):
        assert word in text


def test_options_may_stand_behind_an_unquoted_driver_line(shell: Any) -> None:
    line = ["conv", "-n", "1", "-c", "2", "-H", "4", "-W", "4", "-k", "2", "-F", "1"]
    document = shell.json("find", *line, "--mode", "FAST", "--workspace-limit", "0")
    assert (document["mode"], document["origin"]) == ("FAST", "fallback")
    transposed = shell.json("find", *line, "--mode", "trans", "--mode", "fast")
    assert "_mode:transpose" in transposed["problem"]
    assert "Usage: convfind find" in shell("find", *line, "--help").stdout


ILLEGAL = [
    pytest.param((), 2, "no problem given", id="nothing"),
    pytest.param(("--x", "1,2,3,3"), 2, "--w is missing", id="no weights"),
    pytest.param(("--x", "1,two", "--w", "1"), 2, "'1,two'", id="not numbers"),
    pytest.param(("--x", "1,3,4,4", "--w", "1,3,5,5"), 2, "w: (1, 3, 5, 5)", id="filter"),
    pytest.param((KEY, "--x", "1,1,3,3"), 2, "--x cannot change", id="text and options"),
    pytest.param(("nonsense",), 2, "problem: 'nonsense'", id="text"),
    pytest.param(("conv -n many",), 2, "batchsize: 'many'", id="driver line"),
    pytest.param(("--mode", "4", KEY), 2, "--mode: '4' is not a legal value", id="mode 4"),
    pytest.param(("--mode", "quick", KEY), 2, "FAST or 2", id="mode"),
    pytest.param(("conv", "--mode", "quick"), 2, "driver line also conv or trans", id="line mode"),
    pytest.param(("conv", "--devise", "x"), 2, "'--device'? (see `convfind find", id="line option"),
    pytest.param((KEY[:-7] + "9" * 10**6,), 2, "characters ...]", id="long"),
    pytest.param(("--workspace-limit", "-1", KEY), 2, "K, M or G", id="limit"),
    pytest.param(("--time-budget", "-1", KEY), 2, "--time-budget", id="budget"),
    pytest.param(("--direction", "up", KEY), 2, "--direction", id="direction"),
    pytest.param(("--dtype", "float8", KEY), 2, "--dtype", id="dtype"),
    pytest.param(("-n", "0", KEY), 2, "--batch", id="batch"),
    pytest.param(("--solver", "mock-dynamo", KEY), 2, "did you mean mock-dynamic", id="solver"),
    pytest.param(("--frobnicate", KEY), 2, "--frobnicate", id="option"),
    pytest.param(("--device", "mock:9", KEY), 1, "mock device", id="device"),
    pytest.param(("--device", "hip", KEY), 1, "'hip'", id="backend"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), ILLEGAL)
def test_bad_input_is_one_line_and_a_code(
    shell: Any, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = shell("find", "--json", *arguments, code=code)
    assert json.loads(result.stdout)["exit_code"] == code
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_an_epilogue_is_added_to_any_form_of_problem(shell: Any) -> None:
    for problem in (SHAPES, (LINE,), (KEY,)):
        document = shell.json("explain", *problem, "--bias", "--activation", "relu")
        assert document["problem"] == f"{KEY}_bias:1_act:relu"


@pytest.mark.parametrize(
    ("steps", "tail"),
    [
        ("bias", "_bias:1"),
        ("bias+relu", "_bias:1_act:relu"),
        ("add", "_add:1"),
        ("bias+add+relu", "_bias:1_add:1_act:relu"),
        ("bias+relu+add", "_bias:1_add:1_last:1_act:relu"),
        ("clip:0,4", "_act:clip:0.0,4.0"),
        ("leaky:1e+1+add", "_add:1_last:1_act:leaky:10.0"),
    ],
)
def test_an_epilogue_is_steps_in_their_order(shell: Any, steps: str, tail: str) -> None:
    document = shell.json("explain", *SHAPES, "--epilogue", steps)
    assert document["problem"] == KEY + tail


@pytest.mark.parametrize("steps", ["relu+bias", "relu+silu", "add+relu+add", "bias+bias"])
def test_steps_in_another_order_are_refused(shell: Any, steps: str) -> None:
    stderr = shell("explain", *SHAPES, "--epilogue", steps, code=2).stderr
    assert f"--epilogue {steps}: the order is bias, then" in stderr


def test_an_epilogue_is_given_once(shell: Any) -> None:
    words = ("--epilogue", "bias", "--add-last", "--activation", "relu")
    stderr = shell("explain", *SHAPES, *words, code=2).stderr
    assert "give either --epilogue or --activation, --add-last" in stderr
    assert "relo" in shell("explain", *SHAPES, "--epilogue", "relo", code=2).stderr


@pytest.mark.parametrize(
    ("words", "missing"),
    [(SHAPES[:2], "--w"), (SHAPES[2:4], "--x"), (("--padding", "1"), "--x and --w")],
)
def test_a_missing_shape_is_named(shell: Any, words: tuple[str, ...], missing: str) -> None:
    assert f"{missing} is missing" in shell("find", *words, code=2).stderr


def test_constant_weights_are_recorded_apart(shell: Any) -> None:
    assert shell.json("find", *SHAPES)["origin"] == "measured"
    for origin in ("measured", "user-db"):
        assert shell.json("find", *SHAPES, "--constant-weights")["origin"] == origin
    assert shell.json("explain", *SHAPES, "--constant-weights")["policy"]["constant_weights"]
