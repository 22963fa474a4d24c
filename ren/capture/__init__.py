"""Capture of functions into plans: arguments, pytrees, placement, submission, programs, prints."""
