"""The design of a bootstrap: its levels, sine, matrices, keys and precision; no polynomials."""
