"""Analysis of encrypted programs: requirements before a run, precision and errors after it."""
