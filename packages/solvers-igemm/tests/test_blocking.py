"""Cuts cover the whole product and give every core something to do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convfind_solvers_igemm.blocking import Product, cut, packed_at_once, split_cut

sizes = st.integers(1, 5000)


@given(sizes, sizes, st.integers(1, 64), st.integers(1, 128))
def test_cuts_are_whole_units_within_the_cache(
    positions: int, filters: int, groups: int, cores: int
) -> None:
    product = Product(positions, filters, groups, 32, 12, 504)
    found = cut(product, cores)
    assert found.positions % 32 == 0
    assert found.filters % 12 == 0
    assert 0 < found.filters <= 504


@given(st.integers(1, 128))
def test_nearly_every_core_gets_work_where_there_is_enough(cores: int) -> None:
    product = Product(64 * 1024, 64, 1, 32, 12, 504)
    found = cut(product, cores)
    items = -(-product.positions // found.positions) * -(-product.filters // found.filters)
    assert items >= 0.9 * cores


def longest_of(product: Product, cores: int) -> float:
    """Return what the core does that is ready last, as a part of an equal share."""
    found = cut(product, cores)
    along = -(-product.positions // found.positions)
    across = -(-product.filters // found.filters)
    areas = [
        min(found.positions, product.positions - i * found.positions)
        * min(found.filters, product.filters - j * found.filters)
        for j in range(across)
        for i in range(along)
    ]
    busy_until = [0] * cores
    for area in areas:
        first = busy_until.index(min(busy_until))
        busy_until[first] += area
    return max(busy_until) * cores / sum(areas)


@given(st.integers(16, 200), st.sampled_from((2, 3, 4)))
def test_no_core_waits_long_for_the_others(units: int, cores: int) -> None:
    assert longest_of(Product(32 * units, 504, 1, 32, 12, 504), cores) <= 1.15


@given(st.integers(3, 40), st.sampled_from((2, 3, 4)))
def test_panels_that_cores_can_share_are_shared(each: int, cores: int) -> None:
    filters = 16 * each * cores
    assert longest_of(Product(49, filters, 1, 6, 16, filters), cores) <= 1.15


def test_a_single_core_reads_everything_once() -> None:
    found = cut(Product(196, 500, 1, 32, 12, 504), 1)
    assert found.positions >= 196
    assert found.filters == 504


def test_large_weights_are_split_before_few_positions() -> None:
    found = cut(Product(196, 512, 1, 12, 32, 512), 2)
    assert found.filters < 512
    assert found.positions >= 98


@given(sizes, sizes, st.integers(1, 100_000), st.integers(1, 64), st.integers(0, 9))
def test_parts_cover_the_reduction_within_the_limit(
    positions: int, filters: int, reduction: int, cores: int, most: int
) -> None:
    product = Product(positions, filters, 1, 32, 12, 504)
    found = split_cut(product, reduction, 256, cores, most)
    assert found.span % 256 == 0
    assert (found.parts - 1) * found.span < reduction <= found.parts * found.span
    assert found.parts <= max(1, most)


def test_few_tiles_over_many_positions_split_the_sum() -> None:
    product = Product(147, 64, 1, 32, 12, 504)
    assert split_cut(product, 50_000, 256, 2).parts >= 2
    assert split_cut(product, 50_000, 256, 1).parts == 1


@given(st.integers(1, 500), st.integers(1, 64), st.integers(1, 64))
def test_no_core_packs_much_more_than_its_share(panels: int, groups: int, cores: int) -> None:
    count = packed_at_once(panels, groups, cores)
    longest = -(-groups * -(-panels // count) // cores) * count
    assert longest <= 1.3 * -(-groups * panels // cores)


def test_panels_are_packed_together_where_no_core_waits() -> None:
    assert packed_at_once(64, 1, 2) == 4
    assert packed_at_once(4, 1, 2) == 2
    assert packed_at_once(64, 1, 1) == 4
