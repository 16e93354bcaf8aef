"""`pip_install`: the command that installs a package of this project, in the form that works here.

Where convfind was installed from a checkout, which pip notes beside it (PEP 610), the command names
the folder of the package there: an index need not have it.
"""

from __future__ import annotations

import json
from pathlib import Path


def pip_install(requirement: str) -> str:
    """Return a command for a distribution such as ``convfind-finddb-tools[sign]``."""
    name, bracket, extras = requirement.partition("[")
    folder = _folder(name)
    place = requirement if folder is None else f"{folder}{bracket}{extras}"
    quoted = f'"{place}"' if {"[", " "} & {*place} else place
    return f"python -m pip install {quoted}"


def _folder(name: str) -> str | None:
    """Return where a package of the checkout is, from the current folder if that is its root."""
    root = _checkout()
    prefix, _, short = name.partition("convfind-")
    if root is None or prefix or not short:
        return None
    for candidate in (short, f"frontend-{short}"):
        folder = root / "packages" / candidate
        if (folder / "pyproject.toml").is_file():
            return f"./packages/{candidate}" if _is_current(root) else str(folder)
    return None


def _checkout() -> Path | None:
    """Return the root of the checkout from which convfind was installed."""
    # Only those who miss something pay for these imports.
    from importlib import metadata
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    try:
        noted = json.loads(metadata.distribution("convfind").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return None
    url = urlparse(noted.get("url", ""))
    if url.scheme != "file" or "dir_info" not in noted:
        return None
    return Path(url2pathname(url.path)).parent.parent


def _is_current(folder: Path) -> bool:
    try:
        return Path.cwd() == folder.resolve()
    except OSError:
        return False
