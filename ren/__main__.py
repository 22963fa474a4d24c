"""`python -m ren`: versions, devices, settings, and the self-test; exits with 1 if it fails."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version

import jax

import ren
from ren.config import config
from ren.core.text_table import columns
from ren.lowering.backends.native.build import compiler
from ren.lowering.backends.native.ffi_call import PLATFORM
from ren.lowering.backends.native.library import functions, outcome
from ren.lowering.plan.cost import MODEL, keep_rates, rates
from ren.lowering.storage.profile_store import cache_folder
from ren.self_test import measured_factor, selftest


def about() -> list[tuple[str, str]]:
    """Rows (name, value): the installed versions, the processors, the devices and the cache."""
    folder = cache_folder()
    packages = ("jax", "jaxlib", "numpy", "attrs")
    devices = ", ".join(f"{d.platform}:{d.id} {d.device_kind}" for d in jax.devices())
    return [
        ("ren", ren.__version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, version(name)) for name in packages),
        ("processors", str(os.cpu_count())),
        ("devices", devices),
        ("native kernels", _native()),
        ("estimates", _calibrated()),
        ("cache", "off" if folder is None else str(folder)),
    ]


def _native() -> str:
    """Whether kernels in C++ run here; they are built now if they were not."""
    if not config.native:
        return "off (ren.config.native)"
    if (found := outcome()).reason:
        return f"none: {found.reason}"
    library, built_by = functions(), compiler().version.splitlines()[0]
    assert library is not None  # what is off or missing has been told
    is_alone = all(device.platform == PLATFORM for device in jax.devices())
    where = "yes" if is_alone else "on the host, for random numbers and decoding"
    return f"{where}, {found.name}: {library.vectors}, by {built_by}"


def _calibrated() -> str:
    """Whose rates estimates have; those of this machine are measured now, in under a second."""
    if cache_folder() is None or not config.native or outcome().reason:
        return f"as {MODEL.machine.partition(' (')[0]}"
    keep_rates(factor := measured_factor())
    return f"{rates().machine}, {factor:.2f} times those {MODEL.machine.partition(' (')[0]}"


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the report. It takes no arguments but --help."""
    parser = argparse.ArgumentParser(prog="python -m ren", description=__doc__)
    parser.parse_args(arguments)
    print(columns(about(), left=(0, 1)), flush=True)
    print("\nself-test")
    report = selftest()
    print(report)
    raise SystemExit(0 if report else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
