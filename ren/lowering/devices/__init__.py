"""Devices of arrays, traces of JAX, and donated buffers."""
