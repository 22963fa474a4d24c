"""CKKS: approximate arithmetic on encrypted real and complex vectors."""
