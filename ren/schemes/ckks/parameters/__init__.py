"""Parameters: rings, levels, scales and security of a context, planned, checked and shown."""
