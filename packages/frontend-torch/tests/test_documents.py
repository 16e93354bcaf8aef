"""The code of the documents runs, in the order in which it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Tutorials are executed in ``tests/documents``.
PAGES = ("docs/pytorch.md", "packages/frontend-torch/README.md")


@pytest.mark.skipif(shutil.which("g++") is None, reason="PyTorch's compiler needs a compiler")
@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    assert blocks
    monkeypatch.setenv("CONVFIND_USER_DB_PATH", str(tmp_path))
    monkeypatch.setenv("CONVFIND_FIND_MODE", "FAST")
    subprocess.run([sys.executable, "-c", "\n".join(blocks)], check=True)
