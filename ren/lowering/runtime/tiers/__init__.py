"""Tiers of a plan: which runner a call takes, when a graph is compiled, inside which budget."""
