"""FFT convolution solvers: large filters at the cost of small ones."""
