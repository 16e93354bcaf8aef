"""How packages plug into convfind: the project name and the marker for hook implementations.

A plugin is a module (or any object) with functions that carry the names of hooks. A package that
brings a solver needs three things. A solver, as any module ``my_package/solver.py``::

    class MySolver(convfind.Solver):
        solver_id = "my-solver-fwd"
        ...

A module with hooks, ``my_package/hooks.py``, that imports little and touches no device::

    from convfind.plugins import hookimpl

    @hookimpl
    def convfind_register_solvers(register):
        from my_package.solver import MySolver

        register.extend([MySolver()])  # best first

An entry point, in its ``pyproject.toml``::

    [project.entry-points.convfind]
    my-package = "my_package.hooks"

After ``pip install`` of the package ``convfind doctor`` lists the plugin, and ``convfind solvers``
its solvers. All hooks are in `convfind.plugins.spec`. Without an installation, for tests and in
programs: ``Registry.build(plugins=[my_package.hooks])`` of `convfind.plugins.registry`.
"""

from __future__ import annotations

import pluggy

from convfind.plugins.spec import PROJECT

__all__ = ["PROJECT", "hookimpl"]

#: Decorates functions that implement a hook.
hookimpl = pluggy.HookimplMarker(PROJECT)
