"""Runs of plans: unit by unit or as one graph, with their prepared steps, streams and tiers."""
