"""Timings: `make bench`.

Any row can be timed beside an older commit, by running the same public calls in a clone of it:
`python -m benchmarks.older PATH_OF_CLONE`.
"""
