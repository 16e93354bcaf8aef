"""The built-in shapes cover what they promise."""

from __future__ import annotations

from convfind.testing import edge_cases, variants, weird_problems
from convfind.types import ConvMode, DataType, Direction


def test_edge_cases_cover_the_edges() -> None:
    cases = edge_cases()
    assert len(set(cases)) == len(cases)
    assert {case.spatial_rank for case in cases} == {1, 2, 3}
    assert any(case.mode is ConvMode.TRANSPOSE for case in cases)
    assert any(case.x_shape[1] == 1 for case in cases)
    assert any(case.w_shape[0] == 1 for case in cases)
    assert any(case.groups == case.x_shape[1] > 1 for case in cases)
    assert any(case.padding != case.padding_end for case in cases)
    assert any(case.padding[0] > case.x_shape[2] for case in cases)
    assert any(case.stride[0] > case.filter[0] for case in cases)
    assert any(max(case.dilation) > 1 for case in cases)
    assert any(not case.is_packed for case in cases)
    assert any(not case.has_default_scaling for case in cases)
    assert any(case.deterministic for case in cases)
    assert max(case.macs for case in cases) < 4e6


def test_variants_cover_directions_types_and_layouts() -> None:
    seen = list(variants(edge_cases()[0]))
    assert len(set(seen)) == len(seen)
    assert {problem.direction for problem in seen} == set(Direction)
    assert {problem.dtype for problem in seen} == set(DataType) - {DataType.INT32}
    assert {problem.layouts_agree for problem in seen} == {True, False}
    assert {problem.x_layout.channels_last for problem in seen} == {True, False}


def test_every_variant_of_every_edge_case_is_a_possible_problem() -> None:
    assert sum(1 for case in edge_cases() for _ in variants(case)) > 1000


def test_weird_problems_are_possible() -> None:
    assert len(weird_problems()) >= 10
