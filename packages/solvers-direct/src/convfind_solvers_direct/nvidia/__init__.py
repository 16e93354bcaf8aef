"""Solvers for NVIDIA's GPUs."""

from __future__ import annotations
