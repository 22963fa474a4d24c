"""What the engine is for: homomorphic encryption schemes."""
