"""The libraries that are timed, each served by a process of its own."""
