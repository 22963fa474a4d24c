"""Passes from a graph of ring ops to kernels, one file each; `pipeline` lists them in order."""
