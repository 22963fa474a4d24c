"""Plans: steps in order, lifetimes, memory, cost and time, the plan's key, and its reports.

Reports stand here, not in `inspect`, as long as `Plan` calls them and they import `memory`.
"""
