"""Which programs a network's finds begin with, by what they are expected to save."""

from __future__ import annotations

import itertools
import random

import pytest

from convfind.checking.measuring import expected_saving
from convfind.find.forecast import INDEX, Forecast
from convfind.find.network_programs import Contender, Field, worthwhile
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program


def program(name: str) -> Program:
    return Program(KernelSource("mock", f"{name}.cl"))


def field(weight: int = 1, *, error: float = 0.1, **times: float) -> Field:
    """A problem with a solver, of one program, for each name."""
    return Field(
        {
            name: Contender(Forecast(time, error, "x"), frozenset({program(name)}))
            for name, time in times.items()
        },
        weight,
    )


def chosen(*fields: Field, ready: str = "", compilers: int = 2) -> str:
    found = worthwhile(fields, lambda one: one in map(program, ready), compilers)
    return "".join(sorted(one.source.path[0] for one in found))


def test_a_program_that_saves_next_to_nothing_is_left_out() -> None:
    assert chosen(field(a=1.0, b=1.5)) == "a"
    assert chosen(field(error=0.3, a=1.0, b=1.01)) == "ab", "it may well be the faster one"


def test_many_compilers_make_programs_worth_it_that_save_less() -> None:
    close = field(a=1.0, b=1.05)
    assert chosen(close) == "a"
    assert chosen(close, compilers=8) == "ab"
    assert chosen(close, compilers=1) == "a"


def test_every_problem_has_somebody_who_can_run() -> None:
    small = field(a=0.001)
    assert chosen(field(100, b=100.0), small) == "ab"


def test_what_saves_the_network_most_comes_first() -> None:
    fields = [field(1, c=1.0), field(5, b=1.0), field(9, a=1.0)]
    found = worthwhile(fields, lambda one: one == program("c"))
    assert [one.source.path for one in found] == ["c.cl", "a.cl", "b.cl"]


def test_of_programs_that_serve_a_problem_as_well_the_one_that_serves_others_is_chosen() -> None:
    many = [field(error=0.01, a=1.0, b=1.001), *(field(b=1.0) for _ in range(15))]
    assert chosen(*many) == "b"


def test_what_a_network_has_often_counts_more() -> None:
    others = [field(10, b=1.0) for _ in range(15)]
    assert chosen(field(1, a=1.0, b=1.1), *others) == "b"
    assert chosen(field(100, a=1.0, b=1.1), *others) == "ab"


def test_a_program_that_is_ready_need_not_be_worth_it() -> None:
    assert chosen(field(a=1.0, b=1.5), ready="b") == "ab"
    assert chosen(field(a=0.99, b=1.0), ready="b") == "b"


def test_those_of_whom_nothing_is_known_are_served() -> None:
    unknown = Contender(None, frozenset({program("u")}))
    with_unknown = Field({**field(a=1.0, b=2.0).contenders, "u": unknown}, 1)
    assert chosen(with_unknown) == "au"
    assert chosen(Field({"u": unknown}, 1)) == "u"
    assert chosen() == ""


def test_what_is_chosen_does_not_depend_on_the_order_of_solvers_or_problems() -> None:
    generator = random.Random(5)
    fields = [
        field(1, **{name: generator.uniform(1.0, 1.3) for name in generator.sample("abcdef", 4)})
        for _ in range(6)
    ]
    found = set()
    for order in itertools.islice(itertools.permutations(fields), 0, 720, 60):
        turned = [Field(dict(reversed(list(one.contenders.items()))), one.weight) for one in order]
        found |= {chosen(*order), chosen(*turned)}
    assert len(found) == 1


@pytest.mark.parametrize(("behind", "error"), [(0.0, 0.3), (0.2, 0.3), (-0.1, 0.1), (0.5, 0.1)])
def test_the_expected_saving_is_the_mean_of_what_is_saved(behind: float, error: float) -> None:
    generator = random.Random(1)
    drawn = [max(0.0, -generator.gauss(behind, error)) for _ in range(200_000)]
    mean = sum(drawn) / len(drawn)
    assert expected_saving(behind, error) == pytest.approx(mean, rel=0.03, abs=1e-4)


def test_a_second_solver_is_foreseen_where_all_rests_on_one_and_its_own_word() -> None:
    def with_source(source: str, **times: float) -> Field:
        return Field(
            {
                name: Contender(Forecast(time, 0.3, source), frozenset({program(name)}))
                for name, time in times.items()
            },
            1,
        )

    only = {program("a"): None}
    assert with_source(INDEX, a=1.0, b=5.0, c=9.0).second(only) == {program("b")}
    assert with_source("model", a=1.0, b=5.0).second(only) == frozenset()
    assert with_source(INDEX, a=1.0).second(only) == frozenset()
    both = only | {program("c"): None}
    assert with_source(INDEX, a=1.0, b=5.0, c=9.0).second(both) == frozenset()
