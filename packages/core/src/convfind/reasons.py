"""The catalogue of reasons for which a solver, or the finder, leaves a candidate out."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A stable word for scripts; `text` is the sentence for people."""

    # The problem is outside what the algorithm does.
    PROBLEM = "problem"
    DIRECTION = "direction"
    DTYPE = "dtype"
    LAYOUT = "layout"
    SPATIAL_RANK = "spatial-rank"
    FILTER_SIZE = "filter-size"
    STRIDE = "stride"
    DILATION = "dilation"
    PADDING = "padding"
    GROUPS = "groups"
    CHANNELS = "channels"
    NON_PACKED = "non-packed"
    SCALING = "scaling"
    EPILOGUE = "epilogue"
    SIZE_LIMIT = "size-limit"
    TRAIT = "trait"
    # The problem asks for a property that the algorithm does not have.
    DETERMINISTIC = "deterministic"
    ACCURACY = "accuracy"
    # The device lacks something.
    BACKEND = "backend"
    DEVICE_KIND = "device-kind"
    ARCHITECTURE = "architecture"
    FEATURE = "feature"
    LOCAL_MEMORY = "local-memory"
    WORK_GROUP = "work-group"
    LIBRARY = "library"
    # The policy of this find leaves it out.
    NOT_DYNAMIC = "not-dynamic"
    DENIED = "denied"
    WORKSPACE = "workspace"
    BUDGET = "budget"
    OUTRUN = "outrun"
    LAST_RESORT = "last-resort"
    NO_CHILD = "no-child"
    # It was tried and failed.
    BUILD_FAILED = "build-failed"
    LAUNCH_FAILED = "launch-failed"
    WRONG_RESULT = "wrong-result"
    CRASHED = "crashed"
    HUNG = "hung"
    QUARANTINED = "quarantined"
    SOLVER_ERROR = "solver-error"

    @property
    def text(self) -> str:
        """One phrase for people."""
        return _TEXT[self]


_TEXT = {
    Reason.PROBLEM: "computes another kind of problem",
    Reason.DIRECTION: "computes another direction",
    Reason.DTYPE: "unsupported data type",
    Reason.LAYOUT: "unsupported tensor layout",
    Reason.SPATIAL_RANK: "unsupported number of spatial dimensions",
    Reason.FILTER_SIZE: "unsupported filter size",
    Reason.STRIDE: "unsupported stride",
    Reason.DILATION: "unsupported dilation",
    Reason.PADDING: "unsupported padding",
    Reason.GROUPS: "unsupported number of groups",
    Reason.CHANNELS: "unsupported number of channels",
    Reason.NON_PACKED: "tensors with gaps are not supported",
    Reason.SCALING: "alpha or beta is not supported",
    Reason.EPILOGUE: "a bias, an added tensor or an activation is not supported",
    Reason.SIZE_LIMIT: "a size exceeds what the kernel can index",
    Reason.TRAIT: "the problem has a property that the solver does not know",
    Reason.DETERMINISTIC: "results may differ from run to run",
    Reason.ACCURACY: "less accurate than the problem asks for",
    Reason.BACKEND: "made for another backend",
    Reason.DEVICE_KIND: "made for another kind of device",
    Reason.ARCHITECTURE: "made for another architecture",
    Reason.FEATURE: "the device lacks a feature",
    Reason.LOCAL_MEMORY: "needs more local memory than the device has",
    Reason.WORK_GROUP: "needs larger work-groups than the device allows",
    Reason.LIBRARY: "a library that it calls is not installed",
    Reason.NOT_DYNAMIC: "compiled for one shape, and the policy allows dynamic solvers only",
    Reason.DENIED: "left out by the policy",
    Reason.WORKSPACE: "needs more workspace than the limit",
    Reason.BUDGET: "not measured: the time budget of the find was used up",
    Reason.OUTRUN: "not measured: by all that is known it cannot win",
    Reason.LAST_RESORT: "not measured: a last resort, and another solver ran",
    Reason.NO_CHILD: "not measured: no child process could be had to run it in",
    Reason.BUILD_FAILED: "its kernels do not build on this device",
    Reason.LAUNCH_FAILED: "its kernels do not run on this device",
    Reason.WRONG_RESULT: "its result was wrong",
    Reason.CRASHED: "it ended the process in which it was tried",
    Reason.HUNG: "it did not end in time",
    Reason.QUARANTINED: "failed here before",
    Reason.SOLVER_ERROR: "the solver raised an error",
}
