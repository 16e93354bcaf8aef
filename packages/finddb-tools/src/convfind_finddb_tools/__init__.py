"""Tools for find databases: exchange with MIOpen, inspecting, merging, repair."""
