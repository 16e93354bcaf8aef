"""How fast the GEMM fallback's products are, through the Device contract: NN, NT and TN, square."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from convfind.device.target import DeviceKind
from convfind.errors import ConvfindError
from convfind.kit.gemm_lowering.product import Gemm, Operand
from convfind.runtime.backend import Device, InvokeArgs
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Memory
from convfind_backend_opencl.backend import OpenCLBackend
from convfind_backend_opencl.gemm.gpu import MEASURED_TILES, fits
from convfind_backend_opencl.gemm.solver import kernel_for

Array = np.ndarray[Any, Any]

FORMS = {"NN": (False, False), "NT": (False, True), "TN": (True, False)}
LEAST_SAMPLES, MOST_SAMPLES = 5, 50
SECONDS = 0.2  # of samples for one product


@dataclass(frozen=True, slots=True)
class Row:
    """One product on the device."""

    form: str
    size: int
    config: str
    is_default: bool
    gflops: float
    error: float  # of the first row of the result, relative to its largest element
    share: float | None  # of the ceiling


def product(size: int, form: str) -> Gemm:
    """Return the square product of one form: A, B and C are x, w and y."""
    a, b, c = (Operand(BufferArg(memory), size) for memory in (Memory.X, Memory.W, Memory.Y))
    return Gemm(size, size, size, a, b, c, *FORMS[form])


def configs(device: Device, gemm: Gemm, *, every: bool) -> list[Config]:
    """Return the default config first; with ``every`` on a GPU all that it is chosen from."""
    target = device.target
    default = kernel_for(target).default_config(gemm, target)
    if not every:
        return [default]
    if target.kind is DeviceKind.CPU:
        others = list(kernel_for(target).search_space(target))
    else:
        tiles = [tile for tile in MEASURED_TILES if fits(tile, target)]
        others = [replace(tile, straight=straight).config for tile in tiles for straight in (0, 1)]
    return list(dict.fromkeys((default, *others)))


class Bench:
    """The operands of the largest product on a device."""

    def __init__(self, device: Device, largest: int) -> None:
        self._device = device
        self._loaded: dict[Program, object] = {}
        generator = np.random.default_rng(0)
        self._a, self._b = (
            generator.random(largest * largest, dtype=np.float32) - np.float32(0.5)
            for _ in range(2)
        )
        self._args = InvokeArgs(
            x=device.upload(self._a), w=device.upload(self._b), y=device.allocate(self._a.nbytes)
        )

    def rows(
        self,
        size: int,
        form: str,
        ceiling: float | None,
        tell: Callable[[str], None],
        *,
        every: bool,
    ) -> Iterator[Row]:
        """Measure one product with one or all configs; ``tell`` hears what is under way."""
        device, gemm = self._device, product(size, form)
        kernel = kernel_for(device.target)
        chosen = configs(device, gemm, every=every)
        launches = [kernel.launch(gemm, device.target, config) for config in chosen]
        expected = self._first_row(size, form)
        self._load([launch.kernel.program for launch in launches], tell)
        for number, (config, launch) in enumerate(zip(chosen, launches, strict=True), 1):
            tell(f"config {number} of {len(chosen)}")
            if launch.kernel.program not in self._loaded:
                continue
            invoker = device.invoker([launch], self._loaded)
            samples = [invoker.timed(self._args)]
            count = int(SECONDS * 1e3 / max(samples[0], 1e-3))
            samples = [
                invoker.timed(self._args)
                for _ in range(min(MOST_SAMPLES, max(LEAST_SAMPLES, count)))
            ]
            gflops = 2 * size**3 / statistics.median(samples) / 1e6
            yield Row(
                form,
                size,
                str(config),
                config == chosen[0],
                gflops,
                self._error(expected),
                gflops / ceiling if ceiling else None,
            )

    def _load(self, programs: Iterable[Program], tell: Callable[[str], None]) -> None:
        """Build what is new, on several threads; leave out what the device refuses."""

        def build(program: Program) -> tuple[Program, object]:
            try:
                return program, self._device.load(program, self._device.compile(program))
            except ConvfindError as error:
                click.echo(f"{program.defines}: {error}", err=True)
                return program, None

        new = [program for program in dict.fromkeys(programs) if program not in self._loaded]
        with ThreadPoolExecutor() as pool:
            for number, (program, native) in enumerate(pool.map(build, new), 1):
                tell(f"{number} of {len(new)} programs built")
                if native:
                    self._loaded[program] = native

    def _first_row(self, size: int, form: str) -> Array:
        """The first row of the result, by NumPy in double precision."""
        a, b = (x[: size * size].reshape(size, size) for x in (self._a, self._b))
        left = a[:, 0] if FORMS[form][0] else a[0]
        return np.asarray(left.astype(np.float64) @ (b.T if FORMS[form][1] else b))

    def _error(self, expected: Array) -> float:
        row = np.empty(expected.size, np.float32)
        assert self._args.y is not None
        self._device.read(self._args.y, row)
        return float(np.abs(row - expected).max() / np.abs(expected).max())


def table_of(rows: list[Row], title: str) -> Table:
    """Return the rows as a table, the fastest config of each product first."""
    table = Table(title=title)
    for heading in ("form", "size", "GFLOP/s", "of ceiling", "error", "config"):
        is_text = heading == "config"
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold")
    for row in sorted(rows, key=lambda row: (row.size, row.form, -row.gflops)):
        table.add_row(
            row.form,
            str(row.size),
            f"{row.gflops:,.0f}",
            "" if row.share is None else f"{row.share:.1%}",
            f"{row.error:.1e}",
            f"{row.config}{' (default)' if row.is_default else ''}",
        )
    return table


@click.command()
@click.option("--device", "name", default="opencl", show_default=True, help="opencl:SELECTOR.")
@click.option(
    "--sizes", default="512,1024,2048,4096", show_default=True, help="M = N = K, up to 8192."
)
@click.option("--ceiling", type=float, help="GFLOP/s that the device can do at best.")
@click.option(
    "--all-configs",
    "every",
    is_flag=True,
    help="Time all configs: of GPUs, those that the default is chosen from.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def main(name: str, sizes: str, ceiling: float | None, every: bool, as_json: bool) -> None:
    """Time square products on one device; medians of device time."""
    wanted = [int(size) for size in sizes.split(",")]
    device = OpenCLBackend().open(name.removeprefix("opencl").removeprefix(":"))
    bench = Bench(device, max(wanted))
    rows: list[Row] = []
    with Console(stderr=True).status("") as status:
        for size in wanted:
            for form in FORMS:

                def tell(what: str, product: str = f"{form} {size}") -> None:
                    status.update(f"{product}: {what}")

                rows += bench.rows(size, form, ceiling, tell, every=every)
    title = f"{device.target.name}, {device.target.platform}, {device.target.driver}"
    device.close()
    if as_json:
        click.echo(json.dumps({"device": title, "rows": [as_dict(row) for row in rows]}, indent=2))
    else:
        Console().print(table_of(rows, title))


def as_dict(row: Row) -> dict[str, object]:
    """Return a row for JSON."""
    return {name: getattr(row, name) for name in Row.__dataclass_fields__}


if __name__ == "__main__":
    main()
