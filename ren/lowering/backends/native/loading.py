"""Load a shared library from bytes, through a file that no other user can change or replace.

The bytes come from the compiler, or from an entry of the cache
(`ren/lowering/storage/private_folder.py`). The entry is checked after it was opened. The file that
the loader maps must hold the same bytes.
"""

from __future__ import annotations

import ctypes
import os

from ren.lowering.storage.private_folder import scratch

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def loaded(body: bytes) -> ctypes.CDLL:
    """Load a shared library.

    On Linux the file is in memory and has no name. It is sealed, and the loader opens it by its
    descriptor. So nothing can change it between the check of the bytes and their use. Folders for
    temporary files from which nothing may be executed do not matter.

    Elsewhere loaders take a path alone. The file then is in a private folder for temporary files:
    only this user and root can change it.

    Args:
        body: the bytes of the library.

    Raises:
        OSError: the loader refuses the bytes, or other users can replace the private folder.
    """
    descriptor = _sealed(body)
    if descriptor is not None:
        try:
            # The descriptor stays open. Once it is closed, another library could get its number.
            # The loader takes libraries of the same path for the same library.
            return ctypes.CDLL(f"/proc/self/fd/{descriptor}")
        except OSError:  # /proc is missing, or the system executes no files in memory
            os.close(descriptor)
    with scratch() as folder:
        path = folder / "kernels.so"
        path.write_bytes(body)
        return ctypes.CDLL(str(path))


def _sealed(body: bytes) -> int | None:
    """Return a descriptor of a file in memory that cannot be changed; None where unsupported."""
    if fcntl is None or not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create("ren-kernels", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return None
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(body)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except (OSError, AttributeError):  # a system with such files, and without seals
        os.close(descriptor)
        return None
    return descriptor
