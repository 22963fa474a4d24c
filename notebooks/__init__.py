"""Ren, told in notebooks; `run` executes them and keeps their outputs, `checks` reads them."""
