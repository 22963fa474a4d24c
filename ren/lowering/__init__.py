"""Compile and run programs: passes, kernels, plans, execution."""
