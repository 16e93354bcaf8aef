"""What mkdocs does beyond its settings: generated pages and tables, links into the repository."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # the siblings of this file

import accessible
import benchmark_pages
import command_pages
import mirror
import operator_tables
import solver_tables
from mkdocs.structure.files import File

#: Documents at the root that have a place in the navigation.
_ROOT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md")
_MARKER = re.compile(r"<!-- site: ([\w-]+)(?: ([\w./-]+))? -->")
#: With this the theme's search works on pages that are read from a folder.
_FOLDERS_SEARCH = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
_DIAGRAM = re.compile(r"!\[([^\]]+)\]\(([^)\s]+\.svg)\)")
_TABLES: dict[str, Callable[[str], str]] = {
    "solvers": solver_tables.table,
    "commands": lambda _: command_pages.page(),
    "operators": lambda _: operator_tables.kinds(),
    "onnx-operators": lambda _: operator_tables.onnx(),
    "benchmarks": lambda _: benchmark_pages.overview(),
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of linked files outside the folder of documents, and those of benchmarks."""
    documents = [mirror.DOCS / file.src_uri for file in files if file.src_uri.endswith(".md")]
    documents += [mirror.ROOT / name for name in _ROOT_PAGES]
    results = mirror.ROOT / "benchmarks/RESULTS.md"
    measured = {device: benchmark_pages.page(device) for device in benchmark_pages.devices()}
    for content in measured.values():
        documents += mirror.targets(results, content)
    for path in sorted(mirror.linked_outside(documents)):
        address = mirror.place(path)
        assert address is not None
        content = mirror.text(path)
        if path.suffix == ".md":
            content = mirror.relinked(path, content, address)
        files.append(File.generated(config, address, content=content))
    for device, content in measured.items():
        address = f"benchmarks/{device}.md"
        content = mirror.relinked(results, content, address)
        files.append(File.generated(config, address, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill in tables that are made from code, diagrams, and links that leave the documents."""
    address = page.file.src_uri
    path = mirror.DOCS / address
    if path.exists():
        markdown = mirror.relinked(path, markdown, address)
    markdown = _MARKER.sub(lambda match: _TABLES[match[1]](match[2]), markdown)
    return _DIAGRAM.sub(lambda match: _drawn(path.parent / match[2], match[1]), markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Add what the theme leaves out."""
    return _completed(output)


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """Do the same for pages without a document."""
    return _completed(output) if template_name.endswith(".html") else output


def _completed(output: str) -> str:
    """Return a page that everybody can read, and that asks another host only from a folder."""
    written = _FOLDERS_SEARCH.replace("/", "\\/")
    asked = f"<script>if (location.protocol === 'file:') document.write('{written}')</script>"
    return accessible.completed(output.replace(_FOLDERS_SEARCH, asked))


def _drawn(path: Path, words: str) -> str:
    """Return a diagram inside the page, where it takes the page's colours."""
    drawing = path.read_text(encoding="utf-8")
    drawing = re.sub(r"<style>.*?</style>|<\?xml.*?\?>", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r"\s*\n\s*", "", drawing)
    named = drawing.replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1)
    return f'<figure class="diagram" tabindex="0">{named}</figure>'
