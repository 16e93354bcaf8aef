"""Network file systems, on which LMDB's shared memory and locks do not work."""

from __future__ import annotations

import re
from pathlib import Path

#: Where the kernel lists what is mounted; elsewhere than on Linux nothing is detected.
MOUNTS = Path("/proc/self/mounts")

_NETWORK = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"),
        *("nfs4", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"),
        *("fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone"),
        *("fuse.s3fs", "fuse.sshfs"),
    }
)


def network_file_system(path: Path) -> str | None:
    """Return the type of the network file system that holds the path, None for a local one."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = file_system(path.resolve(), mounts)
    return kind if kind in _NETWORK else None


def file_system(path: Path, mounts: str) -> str | None:
    """Return the type of the file system that holds an absolute path, by the kernel's list."""
    deepest, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1]))
        # The later of two mounts on one point hides the earlier.
        if path.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, kind = len(point.parts), fields[2]
    return kind
