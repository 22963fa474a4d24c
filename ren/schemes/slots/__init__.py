"""Contents of slots, and the rotations that move them; for any scheme with slots."""
