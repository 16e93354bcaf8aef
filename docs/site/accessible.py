"""What the theme leaves out for those who do not see a page, or have no mouse."""

from __future__ import annotations

import html
import re
from collections import Counter

_SEARCH = '<div class="md-search" data-md-component="search" role="dialog">'
_SECTION = re.compile(
    r'(<nav class="md-nav" [^>]*?)aria-labelledby="__nav_\w+_label"([^>]*>\s*'
    r'<label class="md-nav__title"[^>]*>)(.*?)(</label>)',
    re.DOTALL,
)
_CODE = re.compile(r"<pre>(?:<span></span>)?<code>")
_CONTENTS = re.compile(r'(<nav class="md-nav" aria-label=")\s*([^"]*)(">)')
_EMPTY = re.compile(r"<th([^>]*)></th>")
_TAG = re.compile(r"<[^>]*>")


def completed(page: str) -> str:
    """Return a page whose search, sections, tables and blocks of code have what they need."""
    page = page.replace(_SEARCH, _SEARCH.replace(">", ' aria-label="Search">'))
    page = _SECTION.sub(_named, page)
    page = _numbered(page)
    page = _EMPTY.sub(r"<td\1></td>", page)  # a heading that says nothing is none
    return _CODE.sub(r'<pre><span></span><code tabindex="0">', page)


def _numbered(page: str) -> str:
    """Number the parts of the table of contents that have the same name."""
    met: Counter[str] = Counter()

    def numbered(match: re.Match[str]) -> str:
        name = match[2].lower()  # readers do not hear the case
        met[name] += 1
        count = met[name]
        return f"{match[1]}{match[2]}{f', {count}' if count > 1 else ''}{match[3]}"

    return _CONTENTS.sub(numbered, page)


def _named(match: re.Match[str]) -> str:
    """Name a section of the navigation by its title: the theme names it by an icon."""
    title = " ".join(html.unescape(_TAG.sub(" ", match[3])).split())
    return f'{match[1]}aria-label="{html.escape(title)}"{match[2]}{match[3]}{match[4]}'
