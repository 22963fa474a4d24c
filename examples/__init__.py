"""Programs of the size that users write.

`training` trains a logistic regression on encrypted data. `client` and `server` are two processes
that exchange nothing but bytes: `scoring` is what both know, `messages` what travels.
"""
