"""Implicit GEMM convolution for convfind."""
