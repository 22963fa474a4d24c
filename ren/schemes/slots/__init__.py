"""Where numbers stand in slots, and how rotations move them; for any scheme with slots."""
