"""The importer of what ``torch.export`` writes: a table of small functions, by ATen operator."""

from __future__ import annotations

from convfind_networks.from_torch.reading import ExportedModel, read_exported_program

__all__ = ["ExportedModel", "read_exported_program"]
