"""The entry point: what the package registers with convfind."""

from __future__ import annotations

from convfind.plugins.family import family_hooks

convfind_register_solvers, convfind_system_databases = family_hooks("convfind_solvers_fft")
