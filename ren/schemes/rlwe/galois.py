"""Galois elements: the automorphisms X -> X^g that rotate and conjugate slots."""

from __future__ import annotations


def galois_element(steps: int, n: int) -> int:
    """5^steps mod 2n: the automorphism X -> X^g that moves slot i + steps to slot i."""
    return pow(5, steps % (n // 2), 2 * n)


def steps_by_element(n: int, slots: int) -> dict[int, int]:
    """Fewest steps, of either sign, of each rotation over `slots`, by its galois element."""
    found: dict[int, int] = {}
    for j in range(slots // 2 + 1):
        for k in (j, -j):
            found.setdefault(galois_element(k % slots, n), k)
    return found


def conjugation_element(n: int) -> int:
    """2n - 1: X -> X^-1 conjugates every slot."""
    return 2 * n - 1
