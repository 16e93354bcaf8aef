"""Operators of convfind that need no find: pooling, activation, normalisation, softmax, elementwise, reduction, copies."""
