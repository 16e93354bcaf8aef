"""`View`: what a page shows, and the query that asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from convfind_finddb_tools.serve.library import Contents, Library
from convfind_finddb_tools.serve.table import Table

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A field of the form above a table: text, or one of some values."""

    name: str
    label: str
    value: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot, its length as a share of the longest."""

    label: str
    text: str
    share: float
    is_noisy: bool


@dataclass(frozen=True, slots=True)
class View:
    """A page: heading, sentences, a form, a table that is the page's, others, and a plot."""

    title: str
    table: Table
    lead: tuple[str, ...] = ()
    form: tuple[Choice, ...] = ()
    more: tuple[Table, ...] = ()
    bars: tuple[Bar, ...] = ()


Page = Callable[[Library, Query], View]


class NotFound(Exception):
    """A query for something that no database has; the message says what."""


def link(path: str, **query: str) -> str:
    """Return the address of a page."""
    return f"{path}?{urlencode(query)}"


def database_of(library: Library, query: Query) -> tuple[str, Contents]:
    """Return the database that a query names, or the first. Raises `NotFound`."""
    name = query.get("db") or library.names[0]
    if name not in library.names:
        raise NotFound(f"there is no database {name!r} here")
    return name, library.contents(name)
