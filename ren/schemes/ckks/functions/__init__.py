"""Functions of encrypted numbers: polynomials, Chebyshev interpolants, minimax comparisons."""
