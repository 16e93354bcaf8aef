"""What tox does beyond its settings: a run of the whole matrix keeps none of its environments.

Eleven of them hold a gigabyte each, of the OpenCL runtime or of PyTorch; together they have
filled disks. An environment chosen by ``-e`` stays for the next run.
"""

from __future__ import annotations

import shutil

from tox.plugin import impl
from tox.tox_env.api import ToxEnv


@impl
def tox_after_run_commands(tox_env: ToxEnv) -> None:
    """Removes the environment, unless it was asked for by name."""
    if tox_env.options.env.is_default_list:
        shutil.rmtree(tox_env.env_dir)
