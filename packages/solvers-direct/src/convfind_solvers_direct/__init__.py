"""Direct convolution for convfind."""
