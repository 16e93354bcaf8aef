"""Every field of a policy takes what its type says, and nothing else."""

from __future__ import annotations

import dataclasses
import math
from enum import StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convfind.device.target import DeviceKind
from convfind.errors import SettingsError
from convfind.policy import CheckHit, Fallback, FindMode, OnMiss, Order, Policy
from convfind.types import Algorithm

SWITCHES = [field.name for field in dataclasses.fields(Policy) if field.type == "bool"]
FIELDS = [field.name for field in dataclasses.fields(Policy)]
WORDS: dict[str, type[StrEnum]] = {
    "on_miss": OnMiss,
    "check_hit": CheckHit,
    "order": Order,
    "fallback": Fallback,
}


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", ["no", "false", "off", "", 0, 1, None, [], math.nan])
def test_a_switch_is_true_or_false(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match="True or False") as caught:
        Policy().with_changes(**{name: value})  # type: ignore[arg-type]
    assert caught.value.name == name


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_may_be_numpys(name: str) -> None:
    for value in (np.bool_(True), np.array(True), True):
        assert getattr(Policy().with_changes(**{name: value}), name) is True  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tolerance", "time_budget", "workspace_limit"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", True, [1], 1j, object])
def test_an_amount_is_a_finite_number_that_is_not_negative(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match="0 or more") as caught:
        Policy(**{name: value})  # type: ignore[arg-type]
    assert caught.value.name == name


def test_amounts_may_be_of_any_number_type() -> None:
    policy = Policy.for_mode(
        "normal",
        tolerance=np.float32(0.5),
        time_budget=np.array(2),
        workspace_limit=np.int64(64),
    )
    assert (policy.tolerance, policy.time_budget, policy.workspace_limit) == (0.5, 2.0, 64)
    assert [type(n) for n in (policy.tolerance, policy.time_budget)] == [float, float]
    assert type(policy.workspace_limit) is int
    with pytest.raises(SettingsError, match="workspace_limit"):
        Policy(workspace_limit=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "kind"), WORDS.items())
def test_words_are_read_in_any_case_and_others_refused(name: str, kind: type[StrEnum]) -> None:
    for word in kind:
        assert getattr(Policy().with_changes(**{name: word.upper()}), name) is word  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=rf"{name}: 'quickly' .* {', '.join(kind)}"):
        Policy().with_changes(**{name: "quickly"})  # type: ignore[arg-type]


def test_collections_of_words_may_be_one_word() -> None:
    policy = Policy(solvers="a", deny=["b", "c"], algorithms=("FFT", Algorithm.GEMM))  # type: ignore[arg-type]
    assert policy.solvers == frozenset("a")
    assert policy.deny == frozenset("bc")
    assert policy.algorithms == frozenset({Algorithm.FFT, Algorithm.GEMM})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("solvers", 5),
        ("solvers", [5]),
        ("deny", None),
        ("deny", 3.5),
        ("algorithms", "fast"),
        ("algorithms", [["fft"]]),
        ("mode", "quick"),
    ],
)
def test_other_collections_are_refused(name: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        Policy(**{name: value})  # type: ignore[arg-type]
    assert caught.value.name == name


def test_an_unknown_field_is_refused_with_similar_ones() -> None:
    with pytest.raises(SettingsError, match=r"'time_buget' .* time_budget"):
        Policy().with_changes(time_buget=1)  # type: ignore[call-arg]


@given(
    st.sampled_from(FIELDS),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=4)
    | st.lists(st.text(max_size=5) | st.integers(), max_size=3),
)
def test_any_value_gives_a_policy_of_the_right_types_or_names_the_field(
    name: str, value: Any
) -> None:
    try:
        policy = Policy().with_changes(**{name: value})
    except SettingsError as error:
        refused = error.name
        assert refused == name
        return
    assert isinstance(policy.mode, FindMode)
    for field in SWITCHES:
        assert isinstance(getattr(policy, field), bool)
    assert 0 <= policy.tolerance < math.inf
    assert hash(policy) == hash(dataclasses.replace(policy))


def test_fixed_sizes_on_gpus_have_kernels_for_one_size_raced_too() -> None:
    given = Policy(time_budget=2, use_db=False, deny=frozenset({"a"}))
    assert given.for_fixed_sizes(DeviceKind.GPU) == dataclasses.replace(
        given, mode=FindMode.HYBRID, dynamic_only=False
    )
    assert Policy().for_fixed_sizes(DeviceKind.GPU) == Policy.for_mode("HYBRID")


@pytest.mark.parametrize("kind", [DeviceKind.CPU, DeviceKind.ACCELERATOR])
def test_fixed_sizes_elsewhere_are_found_as_usual(kind: DeviceKind) -> None:
    assert Policy().for_fixed_sizes(kind) == Policy()


@pytest.mark.parametrize("mode", [mode for mode in FindMode if mode is not FindMode.DYNAMIC_HYBRID])
def test_fixed_sizes_change_no_other_mode(mode: FindMode) -> None:
    assert Policy.for_mode(mode).for_fixed_sizes(DeviceKind.GPU) == Policy.for_mode(mode)
