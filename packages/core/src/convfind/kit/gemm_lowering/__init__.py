"""Convolutions as matrix products: the products, the columns, and how both are cut into chunks."""
