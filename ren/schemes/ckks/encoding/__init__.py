"""Encoding: values to slots to polynomials, plaintexts, and objects to bytes and back."""
