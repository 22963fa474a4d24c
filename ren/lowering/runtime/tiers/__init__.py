"""Tiers of a plan: which runner a call takes, when a graph is compiled, inside which budget.

`plan_key` names a plan across processes, for what is stored of it.
"""
