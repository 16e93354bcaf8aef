"""The queue: everything ends exactly once, whoever dies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convfind.problem import ConvProblem
from convfind_finddb_tools.tune.neighbours import by_weight, representatives, seed_from
from convfind_finddb_tools.tune.tasks import MOST_DEATHS, TaskQueue, batch_size


def test_order_and_waiting() -> None:
    queue = TaskQueue(["a", "b", "c"], {"a": "a", "b": "a", "c": "gone"})
    assert queue.take(5) == ("a", "c")
    assert queue.take(5) == ()
    queue.finish("a")
    assert queue.take(5) == ("b",)
    assert queue.unfinished == 2


def test_the_first_unfinished_is_to_blame_and_returns_alone() -> None:
    queue = TaskQueue("abcd")
    batch = queue.take(4)
    queue.finish("a")
    assert queue.lose(batch, {"a"}) is None
    assert queue.take(4) == ("b",)
    assert queue.take(4) == ("c", "d")


def test_three_deaths_end_it_and_release_those_that_wait() -> None:
    queue = TaskQueue(["a", "b"], {"b": "a"}, {"a": 1})
    assert queue.lose(queue.take(1), ()) is None
    assert queue.lose(queue.take(1), ()) == "a"
    assert queue.take(1) == ("b",)
    assert TaskQueue(["a"], deaths={"a": MOST_DEATHS}).quarantined == ["a"]


@given(st.integers(1, 30), st.data())
def test_every_problem_ends_once(count: int, data: st.DataObject) -> None:
    names = [str(number) for number in range(count)]
    after = {name: data.draw(st.sampled_from(names)) for name in names if int(name) % 2}
    after = {name: first for name, first in after.items() if first not in after}
    poison = data.draw(st.sets(st.sampled_from(names)))
    queue = TaskQueue(names, after)
    ended: list[str] = []
    deaths = 0
    while queue.unfinished:
        batch = queue.take(data.draw(st.integers(1, 5)))
        assert batch, "nothing is under way, so that something must be ready"
        killer = next((name for name in batch if name in poison), None)
        finished = batch if killer is None else batch[: batch.index(killer)]
        for name in finished:
            queue.finish(name)
        ended += finished
        if killer is not None:
            deaths += 1
            queue.lose(batch, finished)
    assert sorted(ended + queue.quarantined) == sorted(names)
    assert set(queue.quarantined) == poison
    assert deaths == MOST_DEATHS * len(poison)


def test_batches_shrink_towards_the_end() -> None:
    assert batch_size(None, 1000, 2) == 1
    assert batch_size(1.0, 1000, 2) == 1
    assert batch_size(0.001, 10_000, 2) == 500
    assert batch_size(0.001, 100, 2) == 25
    assert batch_size(0.1, 10**6, 1000) == 80


def test_representatives_are_near_and_heavy() -> None:
    problems = [
        ConvProblem.forward((batch, 64, 56, 56), (64, 64, size, size))
        for batch in (1, 2, 8)
        for size in (1, 3)
    ]
    ordered = by_weight(problems, {problems[0].key: 10**6})
    assert ordered[0] == problems[0]
    chosen = representatives(ordered)
    assert chosen[problems[2].key] == problems[0].key
    assert chosen[problems[5].key] == problems[5].key
    assert set(chosen) == {problem.key for problem in problems}
    assert seed_from(None) is None
