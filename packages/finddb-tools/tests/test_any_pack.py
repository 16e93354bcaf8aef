"""Any change of a pack, of its manifest or its signature: refused in one line, or the same records.

Whoever changes a pack can also make its hash right, so that in half of the cases it is.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convfind.device.target import Target
from convfind.errors import FindDbError
from convfind.finddb import FindDb, FindEntry, FindRecord
from convfind.finddb.pack import read_pack
from convfind.finddb.packs import installed_packs
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.installing import install_pack
from convfind_finddb_tools.packing import write_pack
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.signature import generate_key, read_trusted, sign_pack, signature_path

Make = Callable[..., FindRecord]

COUNT = 40  # problems in the pack
_PAGE = 4096
_TAIL = struct.Struct("<I32s8s")  # length of the manifest, hash, magic

#: The folder of a test is there for all of its examples.
any_changes = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def pack(tmp_path: Path, record: Make, target: Target, problem: ConvProblem) -> Path:
    """A pack of several pages, with records, a tuned config and rosters."""
    with FindDb.open(tmp_path / "fleet") as db:
        for batch in range(1, COUNT + 1):
            entry = FindEntry(
                records=(record("solver-a", 1.5 + batch), record("solver-b", 2.0)),
                considered=("solver-a@1", "solver-b@1", "solver-c@1"),
            )
            db.store(target, problem.with_batch(batch), entry)
        db.store_config(target, problem, "solver-a", 1, Config(tile=8), 1.5)
    with Snapshot(tmp_path / "fleet") as snapshot:
        write_pack(snapshot, target.identity, Selection(), tmp_path / "good.lmdb")
    return tmp_path / "good.lmdb"


def complaint(work: Callable[[], object]) -> str:
    """Return what an error says that work may raise; nothing where it raises none."""
    try:
        work()
    except FindDbError as error:
        return str(error)
    return ""


def installed(file: Path, user: Path, target: Target, **options: Any) -> Path | None:
    """Install a pack; None where that is refused, and nothing is there."""
    told = complaint(lambda: install_pack(file, user, {"here": target}, **options))
    assert "\n" not in told
    assert len(told) < 2000
    found = installed_packs(user)
    assert len(found) == (not told)
    return found[0] if found else None


@contextmanager
def only_whole(pack: Path, bad: Path, target: Target, problem: ConvProblem) -> Iterator[None]:
    """Install a changed pack: it is refused and nothing is there, or all is as in the pack."""
    yield
    user = bad.with_name("user")
    place = installed(bad, user, target)
    if place is None:
        return
    with FindDb.open(None, [pack]) as right, FindDb.open(None, [place]) as found:
        for batch in range(1, COUNT + 1):
            one = problem.with_batch(batch)
            assert found.lookup(target, one) == right.lookup(target, one)
            assert found.config(target, one, "solver-a", 1) == right.config(
                target, one, "solver-a", 1
            )
        assert found.health() == []
    place.unlink()


def sealed(pages: bytes, manifest: bytes) -> bytes:
    """Return a pack whose hash is right."""
    body = pages + manifest + len(manifest).to_bytes(4, "little")
    return body + hashlib.sha256(body).digest() + b"CFPACK\r\n"


def parts(pack: Path) -> tuple[bytes, bytes]:
    """Return the pages of a pack and its manifest."""
    data = pack.read_bytes()
    length, _, _ = _TAIL.unpack(data[-_TAIL.size :])
    end = len(data) - _TAIL.size
    return data[: end - length], data[end - length : end]


def changed(data: st.DataObject, content: bytes, unit: int) -> bytes:
    """Draw changes: flipped, cut, moved, doubled and missing parts."""
    count = max(1, len(content) // unit)
    places = st.integers(0, count)
    for _ in range(data.draw(st.integers(1, 3))):
        first, last = sorted(data.draw(st.tuples(places, places)))
        begin, end = first * unit, last * unit
        kind = data.draw(st.sampled_from(["flip", "cut", "swap", "double", "drop", "fill", "grow"]))
        if kind == "flip":
            at = data.draw(st.integers(0, max(0, len(content) - 1)))
            content = (
                content[:at] + data.draw(st.binary(min_size=1, max_size=16)) + content[at:][16:]
            )
        elif kind == "cut":
            content = content[:begin]
        elif kind == "swap":
            content = content[end:] + content[begin:end] + content[:begin]
        elif kind == "double":
            content = content[:end] + content[begin:end] + content[end:]
        elif kind == "drop":
            content = content[:begin] + content[end:]
        elif kind == "fill":
            byte = data.draw(st.sampled_from([b"\0", b"\xff"]))
            content = content[:begin] + byte * (end - begin) + content[end:]
        else:
            content += data.draw(st.binary(max_size=64)) * unit
    return content


@any_changes
@given(data=st.data(), is_sealed=st.booleans(), unit=st.sampled_from([1, 16, 512, _PAGE]))
def test_any_pages_are_refused_or_the_same(
    pack: Path,
    target: Target,
    problem: ConvProblem,
    data: st.DataObject,
    is_sealed: bool,
    unit: int,
) -> None:
    bad = pack.with_name("bad.lmdb")
    with only_whole(pack, bad, target, problem):
        if is_sealed:
            pages, manifest = parts(pack)
            bad.write_bytes(sealed(changed(data, pages, unit), manifest))
        else:
            bad.write_bytes(changed(data, pack.read_bytes(), unit))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
_FIELDS = (
    *("version", "schema", "device", "problems", "records", "configs"),
    *("quarantined", "drivers", "packages", "noise", "newest", "another"),
)


@any_changes
@given(
    fields=st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=4),
    missing=st.sets(st.sampled_from(_FIELDS), max_size=2),
)
def test_any_manifest_is_refused_or_says_the_same(
    pack: Path,
    target: Target,
    problem: ConvProblem,
    fields: dict[str, Any],
    missing: set[str],
) -> None:
    pages, text = parts(pack)
    manifest = {name: one for name, one in json.loads(text).items() if name not in missing}
    bad = pack.with_name("bad.lmdb")
    with only_whole(pack, bad, target, problem):
        bad.write_bytes(sealed(pages, json.dumps(manifest | fields).encode()))


@any_changes
@given(data=st.data())
def test_any_signature_is_refused_or_the_signers(
    pack: Path, target: Target, problem: ConvProblem, data: st.DataObject
) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    key = pack.with_name("our.key")
    if not key.exists():
        generate_key(key)
        sign_pack(read_pack(pack), key)
    right = signature_path(pack).read_bytes()
    content = json.loads(right)
    if data.draw(st.booleans()):
        text = changed(data, right, 1)
    else:
        names = st.sampled_from(["statement", "key", "signature"])
        text = json.dumps(content | data.draw(st.dictionaries(names, _JSON))).encode()
    signature_path(pack).write_bytes(text)
    trusted = read_trusted(pack.with_name("our.key.pub"))
    place = installed(pack, pack.with_name("user"), target, trusted=trusted)
    signature_path(pack).write_bytes(right)
    if place is not None:
        found = json.loads(text)
        assert {name: found[name] for name in content} == content
        place.unlink()
        signature_path(place).unlink()


@any_changes
@given(lines=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_of_trusted_keys_is_refused_or_has_keys(tmp_path: Path, lines: bytes) -> None:
    file = tmp_path / "trusted"
    file.write_bytes(lines)
    keys: set[str] = set()
    told = complaint(lambda: keys.update(read_trusted(file)))
    assert "\n" not in told
    assert bool(told) != bool(keys)
    assert all(key.startswith("ed25519:") for key in keys)


def test_an_archive_that_expands_to_gigabytes_is_no_pack(
    pack: Path, target: Target, problem: ConvProblem
) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("data.mdb", bytes(1 << 26))
    bad = pack.with_name("bad.lmdb")
    _, manifest = parts(pack)
    for content in (archive.getvalue(), sealed(archive.getvalue(), manifest)):
        with only_whole(pack, bad, target, problem):
            bad.write_bytes(content)
        assert not bad.with_name("user").exists()


@pytest.mark.parametrize("claimed", [1 << 31, 1 << 46, (1 << 63) - 1])
def test_pages_that_claim_to_be_many_take_no_memory(
    pack: Path, target: Target, problem: ConvProblem, claimed: int
) -> None:
    pages, manifest = parts(pack)
    bad = pack.with_name("bad.lmdb")
    for meta in (0, _PAGE):
        for field in (24, 128, 136):  # the size of the map, the last page, the transaction
            claim = struct.pack("<Q", claimed)
            with only_whole(pack, bad, target, problem):
                at = meta + field
                bad.write_bytes(sealed(pages[:at] + claim + pages[at + 8 :], manifest))
