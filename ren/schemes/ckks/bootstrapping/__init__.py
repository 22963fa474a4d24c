"""Bootstrapping: a ciphertext of few levels becomes one of many, with the same message."""
