"""Storage between processes: executables and profiles of plans, in private folders."""
