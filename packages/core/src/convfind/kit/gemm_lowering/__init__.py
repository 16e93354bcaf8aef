"""Convolutions as matrix products: the products, the columns, and their division into chunks."""
