"""Plans: steps in order, lifetimes, memory, cost and time; frozen data and pure functions."""
