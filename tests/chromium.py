"""Pages in headless Chromium: what axe finds wrong, and what sticks out."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
async function check(page) {
  await new Promise(done => { frame.onload = done; frame.src = page; });
  const inside = frame.contentWindow, text = inside.document;
  await new Promise(done => setTimeout(done, 100));
  const script = text.createElement("script");
  script.src = "/_check/axe.js";
  await new Promise((done, failed) => {
    script.onload = done; script.onerror = failed; text.head.append(script);
  });
  const found = await inside.axe.run(text, { iframes: false, resultTypes: ["violations"] });
  const faults = found.violations.flatMap(rule => rule.nodes.map(
    node => `${rule.id} (${rule.impact}): ${node.html.slice(0, 200)} ${node.failureSummary}`));
  const wide = text.documentElement.scrollWidth - inside.innerWidth;
  if (wide > 1) faults.push(`sticks out by ${wide} pixels`);
  return { page, faults, passed: found.passes.length, failed: found.violations.length };
}
(async () => {
  for (const page of PAGES) {
    let result;
    try { result = await check(page); }
    catch (error) {
      result = { page, faults: [`cannot be checked: ${error}`], passed: 0, failed: 1 };
    }
    await fetch("/_check/result", { method: "POST", body: JSON.stringify(result) });
  }
})();
</script>
</html>
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """A page with its faults; ``passed`` and ``failed`` count axe's rules that apply to it."""

    page: str
    faults: tuple[str, ...]
    passed: int
    failed: int

    @property
    def score(self) -> float:
        """Share of the rules that the page keeps, in percent."""
        return 100 * self.passed / max(self.passed + self.failed, 1)


def check_pages(
    folders: Mapping[str, Path], pages: Sequence[str], axe: Path, *, width: int, scheme: str
) -> list[Checked]:
    """Check pages one after the other.

    Args:
        folders: folders of files by the beginning of their addresses; ``/`` is one of them.
        pages: addresses.
        axe: the file ``axe.min.js``.
        width: of the window, in pixels.
        scheme: ``light`` or ``dark``.
    """
    checker = _CHECKER.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(width))
    results: queue.SimpleQueue[Checked] = queue.SimpleQueue()
    made = {"/_check/run.html": checker.encode(), "/_check/axe.js": axe.read_bytes()}
    handler = partial(_Handler, folders, made, results)
    checked: list[Checked] = []
    with _served(handler) as port, _browser(port, width, scheme) as process:
        while len(checked) < len(pages):
            try:
                checked.append(results.get(timeout=1))
            except queue.Empty:
                assert process.poll() is None, f"Chromium ended with {process.returncode}"
    return checked


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

    def translate_path(self, path: str) -> str:
        path = path.partition("?")[0].partition("#")[0]
        start = max((one for one in self._folders if path.startswith(one)), key=len)
        return os.path.join(self._folders[start], path[len(start) :].lstrip("/"))

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
