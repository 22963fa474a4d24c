"""Keys of a context: made, derived, identified and checked; encryption and decryption with them."""
