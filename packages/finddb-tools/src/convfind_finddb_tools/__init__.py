"""Find databases as a product: interchange with MIOpen, looking into them, merging, repair."""
