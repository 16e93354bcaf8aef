"""The single-precision GEMM fallback: every float32 convolution as matrix products."""
