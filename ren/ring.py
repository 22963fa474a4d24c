"""Rings and domains: `RingSpec` and `Domain`, as users import them."""

from ren.core.ring import Domain, RingSpec

__all__ = ["Domain", "RingSpec"]
