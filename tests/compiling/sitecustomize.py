"""Python imports this file first, in processes that tests start."""

from __future__ import annotations

import compiling_hook

compiling_hook.install()
