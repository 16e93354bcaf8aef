"""Keys and sealed values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convfind.device.target import Target
from convfind.finddb.key import SCHEMA, database_key, full_key, seal, stored_key, unseal
from convfind.problem import ConvProblem

keys = st.one_of(st.binary(max_size=40), st.binary(min_size=500, max_size=600))


def test_a_key_is_schema_target_and_network_config(target: Target) -> None:
    problem = ConvProblem.forward(x=(1, 8, 14, 14), w=(16, 8, 3, 3))
    assert database_key(target, problem).decode() == f"{SCHEMA}|{target.identity}|{problem.key}"


@given(key=keys, payload=st.binary(max_size=100))
def test_a_sealed_value_opens_with_its_key(key: bytes, payload: bytes) -> None:
    sealed = seal(key, payload)
    assert len(stored_key(key)) <= 511
    assert unseal(key, sealed) == payload
    assert full_key(stored_key(key), sealed) == key


@given(key=keys, other=keys, payload=st.binary(max_size=100))
def test_no_other_key_opens_it(key: bytes, other: bytes, payload: bytes) -> None:
    opened = unseal(other, seal(key, payload))
    assert opened == payload if key == other else opened is None


@given(key=keys, payload=st.binary(max_size=100), data=st.data())
def test_a_changed_byte_is_noticed(key: bytes, payload: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal(key, payload))
    place = data.draw(st.integers(0, len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))
    assert unseal(key, bytes(sealed)) in (None, payload)


@given(key=keys, payload=st.binary(min_size=1, max_size=100))
def test_a_missing_end_is_noticed(key: bytes, payload: bytes) -> None:
    assert unseal(key, seal(key, payload)[:-1]) is None


def test_long_keys_stay_apart_and_in_order() -> None:
    first, second = b"a" * 600 + b"1", b"a" * 600 + b"2"
    assert stored_key(first) != stored_key(second)
    assert stored_key(first).startswith(b"a" * 400)
    assert stored_key(b"b" * 511) == b"b" * 511
