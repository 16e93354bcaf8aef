"""Winograd convolution solvers: fewer multiplications, measured error."""
