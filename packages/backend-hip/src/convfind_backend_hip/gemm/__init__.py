"""The GEMM fallback: every convolution as matrix products of rocBLAS."""
