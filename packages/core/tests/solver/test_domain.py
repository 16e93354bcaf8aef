"""What a domain leaves out is refused before a solver is asked, with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.problem.traits import FIRST_TRAITS, Trait
from convfind.reasons import Reason
from convfind.solver import Domain
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.domain import CPUS, GPUS
from convfind.testing import MOCK_TARGET, MockSolver
from convfind.testing.shapes import UNKNOWN_TRAIT, edge_cases, variants, with_unknown_trait
from convfind.types import DataType, Direction

PLAIN = ConvProblem.forward((2, 4, 9, 9), (6, 4, 3, 3))
#: A problem with each trait, and the reason for which it is refused.
WITH: dict[Trait, tuple[dict[str, Any], Reason]] = {
    Trait.FILTER: ({}, Reason.FILTER_SIZE),
    Trait.STRIDE: ({"stride": 2}, Reason.STRIDE),
    Trait.DILATION: ({"dilation": 2}, Reason.DILATION),
    Trait.PADDING: ({"padding": 1}, Reason.PADDING),
    Trait.ASYMMETRIC_PADDING: ({"padding": ((0, 1), (1, 1))}, Reason.PADDING),
    Trait.GROUPS: ({"w": (6, 2, 3, 3), "groups": 2}, Reason.GROUPS),
    Trait.GAPS: ({"x_strides": (800, 200, 20, 1)}, Reason.NON_PACKED),
    Trait.MIXED_LAYOUTS: ({"w_layout": "NHWC"}, Reason.LAYOUT),
    Trait.RESULT_TYPE: ({"dtype": "int8", "y_dtype": "float32"}, Reason.DTYPE),
    Trait.ALPHA: ({"alpha": 2.0}, Reason.SCALING),
    Trait.BETA: ({"beta": 1.0}, Reason.SCALING),
    Trait.DETERMINISTIC: ({"deterministic": True}, Reason.DETERMINISTIC),
    Trait.BIAS: ({"bias": True}, Reason.EPILOGUE),
    Trait.ADD: ({"add": True}, Reason.EPILOGUE),
    Trait.ACTIVATION: ({"activation": "relu"}, Reason.EPILOGUE),
    Trait.ADD_LAST: ({"add": True, "activation": "relu", "add_last": True}, Reason.EPILOGUE),
    Trait.STRICT: ({"accuracy": "strict"}, Reason.ACCURACY),
}


def refusal(domain: Domain, problem: ConvProblem, target: Target = MOCK_TARGET) -> Rejected:
    refused = domain.refusal(problem, target)
    assert refused is not None
    return refused


@pytest.mark.parametrize("trait", Trait)
def test_a_trait_that_is_left_out_is_refused_with_its_reason(trait: Trait) -> None:
    options, reason = WITH[trait]
    problem = ConvProblem.forward(**{"x": PLAIN.x_shape, "w": PLAIN.w_shape, **options})
    assert refusal(Domain().with_epilogue().without(trait), problem).reason is reason
    assert Domain(traits=problem.traits).refusal(problem, MOCK_TARGET) is None


GPU = replace(MOCK_TARGET, identity="", kind=DeviceKind.GPU)


@pytest.mark.parametrize(
    ("domain", "problem", "target", "reason", "detail"),
    [
        (Domain(kinds=GPUS), PLAIN, MOCK_TARGET, Reason.DEVICE_KIND, "GPUs and accelerators"),
        (Domain(kinds=CPUS), PLAIN, GPU, Reason.DEVICE_KIND, "is for CPUs"),
        (
            Domain(features=frozenset({"fp64", "nv-ptx", "dot4"})),
            PLAIN,
            GPU,
            Reason.FEATURE,
            "needs dot4, nv-ptx",
        ),
        (
            Domain(directions=(Direction.BACKWARD_DATA,)),
            PLAIN,
            GPU,
            Reason.DIRECTION,
            "forward is not backward-data",
        ),
        (
            Domain(dtypes=(DataType.FLOAT16, DataType.BFLOAT16)),
            PLAIN,
            GPU,
            Reason.DTYPE,
            "is for float16, bfloat16, not float32",
        ),
        (Domain(ranks=(1, 3)), PLAIN, GPU, Reason.SPATIAL_RANK, "is for 1 or 3, not 2"),
        (Domain(channels_last=True), PLAIN, GPU, Reason.LAYOUT, "must all be channels last"),
    ],
)
def test_each_field_narrows_a_domain(
    domain: Domain, problem: ConvProblem, target: Target, reason: Reason, detail: str
) -> None:
    refused = refusal(domain, problem, target)
    assert refused.reason is reason
    assert detail in refused.detail
    assert Domain().refusal(problem, target) is None


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("mixed", ["x_layout", "w_layout", "y_layout"])
def test_a_domain_of_one_order_of_channels_is_for_all_tensors(
    channels_last: bool, mixed: str
) -> None:
    here, there = ("NHWC", "NCHW") if channels_last else ("NCHW", "NHWC")
    domain = Domain(channels_last=channels_last)
    alike = ConvProblem.forward(PLAIN.x_shape, PLAIN.w_shape, layout=here)
    assert domain.refusal(alike, MOCK_TARGET) is None
    other: dict[str, Any] = {mixed: there}
    apart = ConvProblem.forward(PLAIN.x_shape, PLAIN.w_shape, layout=here, **other)
    assert refusal(domain, apart).reason is Reason.LAYOUT


def test_an_undeclared_solver_takes_every_problem_that_there_was_when_domains_began() -> None:
    for problem in (other for case in edge_cases() for other in variants(case.plain())):
        assert Domain().refusal(problem, MOCK_TARGET) is None


@pytest.mark.parametrize("domain", [Domain(), Domain(traits=FIRST_TRAITS - {Trait.GAPS})])
def test_a_trait_that_came_later_is_refused_by_its_name(domain: Domain) -> None:
    later = with_unknown_trait(PLAIN)
    assert refusal(domain, later) == Rejected(Reason.TRAIT, UNKNOWN_TRAIT)
    aware = replace(domain, traits=domain.traits | {UNKNOWN_TRAIT})
    assert aware.refusal(later, MOCK_TARGET) is None


def test_a_solver_is_not_asked_about_what_is_outside() -> None:
    class OneGroup(MockSolver):
        solver_id = "mock-one-group"
        domain = Domain().without(Trait.GROUPS)

        def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
            assert problem.groups == 1
            return APPLICABLE

    assert OneGroup().takes(PLAIN, MOCK_TARGET)
    grouped = ConvProblem.forward((2, 4, 9, 9), (6, 2, 3, 3), groups=2)
    assert OneGroup().takes(grouped, MOCK_TARGET) == Rejected(Reason.GROUPS, "is for one group")


@pytest.mark.parametrize(
    "nonsense", [{"directions": ("sideways",)}, {"kinds": "gpu"}, {"dtypes": ("float12",)}]
)
def test_words_that_do_not_exist_are_refused_where_they_are_written(
    nonsense: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="is not a valid"):
        Domain(**nonsense)


@pytest.mark.parametrize("nonsense", [{"ranks": ([2],)}, {"ranks": 2}, {"channels_last": "first"}])
def test_values_that_mean_nothing_are_refused_where_they_are_written(
    nonsense: dict[str, Any],
) -> None:
    with pytest.raises(TypeError):
        Domain(**nonsense)


def test_words_and_lists_become_members_and_tuples() -> None:
    loose: dict[str, Any] = {"directions": ["forward"], "dtypes": ["int8"], "traits": {"gaps"}}
    assert Domain(**loose) == Domain(
        directions=(Direction.FORWARD,),
        dtypes=(DataType.INT8,),
        traits=frozenset({Trait.GAPS}),
    )
