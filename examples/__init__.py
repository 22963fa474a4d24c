"""Programs of the size that users write: each is a module, and a notebook tells its story."""
