"""One channel a group and stride 1 on GPUs, channels first: items walk down the rows."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import copies_past_registers, has_room
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind_solvers_direct.gpu.conv import (
    MOST_FLOATS,
    PLAIN_FLOAT32,
    OneLaunch,
    Work,
    most_weights,
    size_constraint,
)
from convfind_solvers_direct.window import Window, window

#: Columns beyond an item's four on each side.
_REACH = 4
#: With as few as these NVIDIA's compiler spills where two rows are one code: it aims too low.
_FEW_TAPS = 15
#: The cost of a work-group's start, in rows.
_START_ROWS = 6
#: Elements up to which the kernel counts in 32 bits.
_MOST_FOURS = 2**30
_WHOLE = 1024
ROWS = Parameter("rows", (8, 14, 28, _WHOLE), "rows of the result of a band; 1024: all there are")
ITEMS = Parameter("items", (32, 64, 128, 224, 256), "of a work-group")
BATCH = Parameter("batch", (2, 4), "rows that come together")
STAGES = Parameter("stages", (3, 4), "batches in local memory")
UNROLL = Parameter("unroll", (1, 2), "rows of a batch whose steps are one code")
GUARDED = Parameter("guarded", (0, 1), "1: rows that bands share are added where they count only")


class LinesConv(OneLaunch):
    """Forward and backward-data.

    The columns of all planes, in fours, are one line, of which a work-group has a piece, whatever
    planes it is of. Its items walk down the rows, which come through a ring in local memory.
    """

    channels_last = False
    domain = PLAIN_FLOAT32
    prefix = "direct-gpu-lines"
    _file = "gpu_lines"
    version = 1
    arithmetic_share = 0.47

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Bands with which the units have the fewest rows to walk, the last turn included."""
        shape, items = window(problem), 128 if target.max_work_group >= 128 else 32
        height, shared = shape.out[0], shape.window[0] - 1
        pieces = -(-shape.images * shape.groups * (shape.size[1] // 4) // items)

        def steps(rows: int) -> float:
            bands = -(-height // rows)
            turns = -(-pieces * bands // max(target.compute_units, 1))
            return turns * (min(rows, height) + (shared / 2 if bands > 1 else 0) + _START_ROWS)

        legal = [int(rows) for rows in reversed(ROWS.values) if rows in (*_bands(shape), _WHOLE)]
        rows = min(legal, key=steps)
        unroll, guarded = 1 + (shape.taps > _FEW_TAPS), int(rows < height)
        return Config(rows=rows, items=items, batch=2, stages=4, unroll=unroll, guarded=guarded)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Bands, work-groups and what is on its way to them."""
        bands = _bands(window(problem))
        ring = Constraint("ring", lambda config: _ring(config) <= MOST_FLOATS, "it has to fit")
        lower = Constraint.among(
            *("bands", ("rows", "guarded")),
            lambda rows, guarded: rows in bands or (rows == _WHOLE and not guarded),
            "bands are lower than the result, and only they share rows",
        )
        return SearchSpace(
            (ROWS, ITEMS, BATCH, STAGES, UNROLL, GUARDED), (size_constraint(target), ring, lower)
        )

    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        items, rows = config.integer("items"), min(config.integer("rows"), shape.out[0])
        above, before = shape.zeros_before
        bands = -(-shape.out[0] // rows)
        macros = {
            **config.without("rows").defines,
            "BEFORE": before,
            "ASYNC": copies_past_registers(target),
        }
        planes, fours = shape.images * shape.groups, shape.size[1] // 4
        numbers = (planes, shape.groups, shape.size[0], shape.out[0], fours, above, bands, rows)
        return Work(macros, numbers, -(-planes * fours // items) * bands, items)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if not (answer := judge_rows(shape, target)):
            return answer
        above, before = shape.zeros_before
        if not 0 <= above < shape.window[0]:
            return Rejected(Reason.PADDING, "more zeros than the filter reaches")
        if shape.size[1] != shape.out[1]:
            return Rejected(Reason.PADDING, "rows of source and result must be equally long")
        if max(before, shape.window[1] - 1 - before) > _REACH:
            return Rejected(Reason.FILTER_SIZE, f"taps beyond {_REACH} columns")
        if shape.size[1] % 4:
            return Rejected(Reason.SIZE_LIMIT, "rows must be whole fours")
        if shape.images * shape.groups * (shape.size[1] // 4) > _MOST_FOURS:
            return Rejected(Reason.SIZE_LIMIT, f"more than {_MOST_FOURS} columns of four")
        return APPLICABLE


def judge_rows(shape: Window, target: Target) -> Applicability:
    """Judge what solvers of whole rows of one channel have in common."""
    if shape.channels > 1 or shape.filters > 1:
        return Rejected(Reason.CHANNELS, "is for one channel a group")
    most = most_weights(target)
    if shape.taps > most:
        return Rejected(Reason.FILTER_SIZE, f"is for {most} taps at most")
    return has_room(target, local_bytes=4 * MOST_FLOATS)


def _bands(shape: Window) -> tuple[int, ...]:
    """Heights of bands that are not the whole result."""
    return tuple(int(rows) for rows in ROWS.values if int(rows) < min(shape.out[0], _WHOLE))


def _ring(config: Config) -> int:
    """Floats of local memory."""
    rows = config.integer("batch") * config.integer("stages")
    return rows * (4 * config.integer("items") + 8)
