"""Solvers for GPUs of any vendor."""

from __future__ import annotations
