"""Noise: tracked bounds of message and error, their rules, checks and estimates."""
