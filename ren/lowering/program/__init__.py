"""Programs: kernels over slots, the steps that run them, and graphs of several kernels."""
