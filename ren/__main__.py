"""`python -m ren`: versions, devices, settings, and the self-test; exits with 1 if it fails."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import jax

import ren
from ren.lowering.columns import columns
from ren.lowering.store import cache_folder
from ren.self_test import selftest


def _about() -> list[tuple[str, str]]:
    """What is installed here, and where programs would run."""
    folder = cache_folder()
    packages = ("jax", "jaxlib", "numpy", "attrs")
    devices = ", ".join(f"{d.platform}:{d.id} {d.device_kind}" for d in jax.devices())
    return [
        ("ren", ren.__version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, version(name)) for name in packages),
        ("processors", str(os.cpu_count())),
        ("devices", devices),
        ("cache", "off" if folder is None else str(folder)),
    ]


def main() -> None:
    """Prints the report."""
    print(columns(_about(), left=(0, 1)), flush=True)
    print("\nself-test")
    report = selftest()
    print(report)
    raise SystemExit(0 if report else 1)


if __name__ == "__main__":
    main()
