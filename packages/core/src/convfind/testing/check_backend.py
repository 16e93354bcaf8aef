"""`check_backend`: checks that a backend keeps its contract, on each of its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from convfind.errors import ConvfindError
from convfind.runtime.backend import Backend
from convfind.solver.kernel_spec import KernelLanguage
from convfind.testing.backend_bench import BackendBench, Unsupported, Violation
from convfind.testing.backend_launch_checks import KERNEL_CHECKS, LIBRARY_CHECKS
from convfind.testing.backend_memory_checks import MEMORY_CHECKS
from convfind.testing.backend_state_checks import STATE_CHECKS, STATE_KERNEL_CHECKS
from convfind.testing.report import BackendReport

_PLAIN = (*STATE_CHECKS, *MEMORY_CHECKS, *LIBRARY_CHECKS)
_WITH_KERNELS = (*KERNEL_CHECKS, *STATE_KERNEL_CHECKS)


def check_backend(backend: Backend, *, numbers: Iterable[int] | None = None) -> BackendReport:
    """Check a backend's contract, as `convfind.runtime.backend` states it.

    Launches are checked of backends that compile shared kernels. Backends that run functions
    instead find the functions of the checks in `convfind.testing.conformance_functions`.

    Args:
        backend: the backend.
        numbers: the devices to check, by their place in ``backend.targets()``; without them all.

    Returns:
        A report; ``report.ok`` is the verdict, and ``str(report)`` lists every failure.
    """
    report = BackendReport(backend.name)
    has_kernels = KernelLanguage.SHARED in backend.languages
    try:
        targets = backend.targets()
    except ConvfindError as error:
        report.fail("targets", "", error)
        return report
    for number in range(len(targets)) if numbers is None else numbers:
        target = targets[number]
        report.devices.append(target.identity)
        bench = BackendBench(backend, number, target)
        for check in (*_PLAIN, *(_WITH_KERNELS if has_kernels else ())):
            _run(report, check, bench)
        try:
            bench.close()
        except Exception as error:
            report.fail("close", target.identity, f"raised {type(error).__name__}: {error}")
    return report


def assert_backend(backend: Backend, *, numbers: Iterable[int] | None = None) -> BackendReport:
    """Raise `AssertionError` with the whole report if `check_backend` finds a failure."""
    report = check_backend(backend, numbers=numbers)
    if not report.ok:
        raise AssertionError(str(report))
    return report


def _run(report: BackendReport, check: Callable[[BackendBench], None], bench: BackendBench) -> None:
    name = check.__name__.replace("_", " ")
    try:
        check(bench)
    except Unsupported as left_out:
        report.skipped[name] = str(left_out)
    except Violation as violation:
        report.fail(name, bench.target.identity, violation)
    except Exception as error:
        report.fail(name, bench.target.identity, f"raised {type(error).__name__}: {error}")
    else:
        report.passed.append(name)
