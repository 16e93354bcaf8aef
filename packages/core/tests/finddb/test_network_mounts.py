"""Finding out what kind of file system a path lies on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from convfind.device.target import Target
from convfind.finddb import FindDb, FindEntry, network_mounts
from convfind.finddb.network_mounts import file_system, network_file_system
from convfind.problem import ConvProblem

OneWarning = Callable[[str], AbstractContextManager[None]]

MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
//server/share /mnt/my\040share cifs rw 0 0
tmpfs /covered tmpfs rw 0 0
user@host: /covered fuse.sshfs rw 0 0
incomplete
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/db", "nfs4"),
        ("/home/local/db", "xfs"),
        ("/homeless/db", "ext4"),
        ("/mnt/my share/db", "cifs"),
        ("/covered/db", "fuse.sshfs"),
    ],
)
def test_the_deepest_and_latest_mount_counts(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


def test_without_a_list_of_mounts_nothing_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_mounts, "MOUNTS", tmp_path / "missing")
    assert network_file_system(tmp_path) is None
    assert file_system(tmp_path, "") is None


def test_a_database_on_a_network_file_system_stays_in_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: Target,
    problem: Callable[[int], ConvProblem],
    entry: Callable[..., FindEntry],
    one_warning: OneWarning,
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path.resolve()} nfs rw 0 0\n")
    monkeypatch.setattr(network_mounts, "MOUNTS", mounts)
    db = FindDb.open(tmp_path / "user")
    with one_warning(r"network file system \(nfs\).*memory only"):
        db.store(target, problem(1), entry(a=1.0))
        db.store(target, problem(2), entry(a=1.0))
    assert db.lookup(target, problem(1)) is not None
    assert not (tmp_path / "user").exists()
    assert len(db.health()) == 1
    with FindDb.open(tmp_path / "user", allow_network=True) as allowed:
        allowed.store(target, problem(1), entry(a=1.0))
        assert allowed.health() == []
    assert (tmp_path / "user").exists()
