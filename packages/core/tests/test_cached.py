"""Caches that stay small."""

from __future__ import annotations

from convfind.cached import RecentlyUsed


def test_what_was_used_last_is_kept() -> None:
    cache = RecentlyUsed[int, str](3)
    for number in range(100):
        cache.put(number, str(number))
        assert cache.get(0) == "0", "used each time, and never forgotten"
    assert [cache.get(number) for number in (98, 99)] == ["98", "99"]
    assert cache.get(50) is None
    assert 50 not in cache


def test_it_never_keeps_more_than_two_generations() -> None:
    cache = RecentlyUsed[int, int](16)
    for number in range(10_000):
        cache.put(number, number)
        assert len(cache) <= 32
    assert all(number in cache for number in range(9_984, 10_000))
    cache.clear()
    assert len(cache) == 0
