"""Pages in headless Chromium: what axe finds wrong, and what sticks out."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_SCHEMES = {"dark": 0, "light": 1}  # as Chromium counts them

#: Shows one page after the other in a frame of the wanted width, and sends what is wrong with it.
_CHECKER = """<!doctype html>
<html lang="en"><title>checker</title>
<style>html, body { margin: 0 } iframe { border: 0; height: 1600px; width: WIDTHpx }</style>
<iframe title="page"></iframe>
<script>
const frame = document.querySelector("iframe");
const options = {
  all: {},
  // The colours of a kind of element, the way it is nested and the media queries of style sheets
  // are the same on all pages, and take most of the time.
  structure: { preload: false, rules: { "color-contrast": { enabled: false } } },
};
async function check(page, look) {
  await new Promise(done => { frame.onload = done; frame.src = page; });
  const inside = frame.contentWindow, text = inside.document;
  await new Promise(done => setTimeout(done, 100));
  const wide = text.documentElement.scrollWidth - inside.innerWidth;
  const faults = wide > 1 ? [`sticks out by ${wide} pixels`] : [];
  if (!options[look]) return { page, look, faults, passed: 0, failed: 0 };
  const script = text.createElement("script");
  script.src = "/_check/axe.js";
  await new Promise((done, failed) => {
    script.onload = done; script.onerror = failed; text.head.append(script);
  });
  const found = await inside.axe.run(text, {
    iframes: false, resultTypes: ["violations"], ...options[look] });
  faults.push(...found.violations.flatMap(rule => rule.nodes.map(
    node => `${rule.id} (${rule.impact}): ${node.html.slice(0, 200)} ${node.failureSummary}`)));
  return { page, look, faults, passed: found.passes.length, failed: found.violations.length };
}
(async () => {
  for (const [page, look] of PAGES) {
    let result;
    try { result = await check(page, look); }
    catch (error) {
      result = { page, look, faults: [`cannot be checked: ${error}`], passed: 0, failed: 1 };
    }
    await fetch("/_check/result", { method: "POST", body: JSON.stringify(result) });
  }
})();
</script>
</html>
"""
_EMPTY_INDEX = (
    b'{"config": {"lang": ["en"], "separator": " ", "pipeline": [], "fields": {}}, "docs": []}'
)


class Look(StrEnum):
    """What is looked at in a page; that it does not stick out always is."""

    ALL = "all"  # all of axe's rules
    STRUCTURE = "structure"  # those that colours have no part in
    WIDTH = "width"  # none


@dataclass(frozen=True, slots=True)
class Checked:
    """A page with its faults; ``passed`` and ``failed`` count axe's rules that apply to it."""

    page: str
    look: str
    faults: tuple[str, ...]
    passed: int
    failed: int

    @property
    def score(self) -> float:
        """Share of the rules that the page keeps, in percent."""
        return 100 * self.passed / max(self.passed + self.failed, 1)


def check_pages(
    folders: Mapping[str, Path], pages: Mapping[str, Look], axe: Path, *, width: int, scheme: str
) -> list[Checked]:
    """Check pages one after the other.

    Args:
        folders: folders of files by the beginning of their addresses; ``/`` is one of them.
        pages: what is looked at, by address.
        axe: the file ``axe.min.js``.
        width: of the window, in pixels.
        scheme: ``light`` or ``dark``.
    """
    checker = _CHECKER.replace("PAGES", json.dumps([*pages.items()])).replace("WIDTH", str(width))
    results: queue.SimpleQueue[Checked] = queue.SimpleQueue()
    made = {
        "/_check/run.html": checker.encode(),
        "/_check/axe.js": axe.read_bytes(),
        # Each page of the site would build its index of all words anew, for seconds.
        "/search/search_index.json": _EMPTY_INDEX,
        "/search/search_index.js": b"var __index = " + _EMPTY_INDEX,
    }
    handler = partial(_Handler, folders, made, results)
    checked: list[Checked] = []
    with _served(handler) as port, _browser(port, width, scheme) as process:
        while len(checked) < len(pages):
            try:
                checked.append(results.get(timeout=1))
            except queue.Empty:
                assert process.poll() is None, f"Chromium ended with {process.returncode}"
    return checked


def showing_all_kinds(pages: Sequence[Path], sheets: Sequence[Path]) -> set[Path]:
    """Choose pages that show together what all show: each kind of element in each kind of parent.

    A kind is a tag with those of its classes that style sheets name, as far as these tell elements
    apart.
    """
    styled = frozenset(re.findall(r"\.(-?[A-Za-z_][\w-]*)", "".join(s.read_text() for s in sheets)))
    kinds = {page: _Kinds.of(page, styled) for page in sorted(pages)}
    sizes = {page: page.stat().st_size for page in kinds}
    chosen: set[Path] = set()
    seen: set[tuple[str, str]] = set()
    while True:
        # The most that is new for the least to be looked at.
        best = max(kinds, key=lambda page: len(kinds[page] - seen) / (1 + sizes[page]))
        if not kinds[best] - seen:
            break
        chosen.add(best)
        seen |= kinds[best]
    for page in sorted(chosen, key=lambda page: -sizes[page]):
        # Those that came later may show all that it does.
        if kinds[page] <= set().union(*(kinds[other] for other in chosen - {page})):
            chosen.remove(page)
    return chosen


class _Kinds(HTMLParser):
    """The kinds of elements of a page, each with that of its parent."""

    _WITHOUT_END = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})

    def __init__(self, styled: frozenset[str]) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self._styled = styled
        self._open = [("", "")]

    @classmethod
    def of(cls, page: Path, styled: frozenset[str]) -> set[tuple[str, str]]:
        parser = cls(styled)
        parser.feed(page.read_text())
        return parser.found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        named = [name for name in classes if name in self._styled]
        kind = f"{tag} {named if classes else None}"
        self.found.add((self._open[-1][1], kind))
        if tag not in self._WITHOUT_END:
            self._open.append((tag, kind))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        # An end also ends what is open inside, such as paragraphs without an end of their own.
        for depth in range(len(self._open) - 1, 0, -1):
            if self._open[depth][0] == tag:
                del self._open[depth:]
                return


@contextmanager
def _served(handler: Any) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _browser(port: int, width: int, scheme: str) -> Iterator[subprocess.Popen[bytes]]:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--mute-audio"),
            *("--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}"),
            # Requests to other hosts are refused at once, where they may time out otherwise.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--window-size={max(width, 500)},1700",
            f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
            *("--remote-debugging-port=0", f"http://127.0.0.1:{port}/_check/run.html"),
        ]
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


class _Handler(SimpleHTTPRequestHandler):
    """Serves folders and what was made for the check, and takes results."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        made: Mapping[str, bytes],
        results: queue.SimpleQueue[Checked],
        *arguments: Any,
    ) -> None:
        self._folders = folders
        self._made = made
        self._results = results
        super().__init__(*arguments)

    def do_GET(self) -> None:
        content = self._made.get(self.path)
        if content is None:
            super().do_GET()
            return
        self.send_response(200)
        kind = "text/javascript" if self.path.endswith(".js") else "text/html; charset=utf-8"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._results.put(Checked(**{**result, "faults": tuple(result["faults"])}))
        self.send_response(204)
        self.end_headers()

    def end_headers(self) -> None:
        # Else each page asks anew for axe and for all style sheets, and compiles what it gets.
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        path = path.partition("?")[0].partition("#")[0]
        start = max((one for one in self._folders if path.startswith(one)), key=len)
        return os.path.join(self._folders[start], path[len(start) :].lstrip("/"))

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
