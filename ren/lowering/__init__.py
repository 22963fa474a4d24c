"""How a program runs: passes, kernels, plans, execution."""
