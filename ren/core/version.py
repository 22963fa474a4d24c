"""The version of Ren: in what it writes to disk, and `ren.__version__`."""

__version__ = "0.1.0"
