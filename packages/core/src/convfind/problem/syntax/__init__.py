"""How texts spell a problem. Whoever reads one says which class it becomes."""

from __future__ import annotations
