"""Frame of serialized objects, checked reading of its contents, and files of them.

magic | version | kind | parameters digest | header (JSON) | arrays | SHA-256 of all before. The
checksum finds damage; it does not authenticate. Every field is checked for its range as well.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import secrets
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import (
    OperandError,
    ParameterError,
    SerializationError,
    TracedValueError,
    kind_of,
)
from ren.core.ring import RingSpec
from ren.core.user_frame import user_line
from ren.lowering.backends.xla.jax_runtime import on_host
from ren.lowering.devices.devices import is_tracer
from ren.poly import Poly
from ren.poly.integers import of_moduli
from ren.poly.poly import realize_polys
from ren.poly.realization import check_addressable

_HEAD = struct.Struct("<8sH16s32sI")  # magic, version, kind, digest, bytes of the header
_CHECKSUM = 32
_MAX_HEADER = 1 << 20
PathLike = str | os.PathLike[str]
PRIVATE, SHARED = 0o600, 0o666  # what the user's umask leaves of them


@attrs.define
class Reader:
    """Contents of a frame: fields by name with their checks, and arrays in order."""

    kind: str
    digest: bytes
    header: dict[str, Any]
    body: memoryview

    def field(self, name: str) -> Any:
        """The field `name`, which has to be there."""
        if name not in self.header:
            raise damaged(self.kind, f"the field {name} is missing")
        return self.header[name]

    def integer(self, name: str, low: int, high: int) -> int:
        """The field `name`, an integer in [low, high]."""
        value = self.field(name)
        if type(value) is not int or not low <= value <= high:
            raise damaged(self.kind, f"{name} is {value!r}, not in [{low}, {high}]")
        return value

    def boolean(self, name: str) -> bool:
        """The field `name`, true or false."""
        return bool(self.integer(name, 0, 1))

    def key_id(self) -> str:
        """The public identity of the keys: 32 hexadecimal digits."""
        return self.hexadecimal("key_id", 16).hex()

    def seed(self, value: Any) -> bytes:
        """A seed of 32 bytes, from its hexadecimal digits."""
        return self._hex("a seed", value, 32)

    def hexadecimal(self, name: str, size: int) -> bytes:
        """The field `name`: so many bytes, from their hexadecimal digits."""
        return self._hex(name, self.field(name), size)

    def _hex(self, name: str, value: Any, size: int) -> bytes:
        try:
            found = bytes.fromhex(value)
        except (TypeError, ValueError):
            found = b""
        if len(found) != size:
            raise damaged(self.kind, f"{name} is not {size} bytes in hexadecimal")
        return found

    def items(self, name: str) -> list[Any]:
        """The field `name`, a list."""
        value = self.field(name)
        if not isinstance(value, list):
            raise damaged(self.kind, f"{name} is not a list")
        return value

    def array(self, shape: tuple[int, ...], dtype: str | np.dtype) -> NDArray:
        """The next array."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if len(self.body) < size:
            raise damaged(self.kind, "they end too early")
        array = np.frombuffer(self.body[:size], dtype).reshape(shape)
        self.body = self.body[size:]
        return array

    def residues(self, ring: RingSpec, batch: tuple[int, ...] = ()) -> NDArray[np.uint32]:
        """The next limb array, each residue below its modulus."""
        limbs = self.array((*batch, ring.limbs, ring.n), "<u4").astype(np.uint32, copy=False)
        values = of_moduli(limbs, ring.moduli) if ring.has_wide else limbs
        if np.any(values >= np.array(ring.moduli, values.dtype)[:, None]):
            raise damaged(self.kind, "a residue is not below its modulus")
        return limbs

    def finish(self) -> None:
        """Raises SerializationError when something is left over."""
        if len(self.body):
            raise damaged(self.kind, f"{len(self.body)} bytes are left over")


@attrs.frozen
class Frame:
    """Frame of the objects of one scheme: the eight bytes they begin with, the format version."""

    magic: bytes
    version: int

    def pack(
        self, kind: str, digest: bytes, header: dict[str, Any], arrays: Sequence[NDArray]
    ) -> bytes:
        """The bytes of an object; `arrays` of 1 or 4 bytes, in an order that the header implies."""
        return b"".join(self.parts(kind, digest, header, arrays))

    def parts(
        self, kind: str, digest: bytes, header: dict[str, Any], arrays: Iterable[NDArray]
    ) -> Iterator[bytes | memoryview]:
        """The same bytes part by part, without copies of the arrays where they are in order."""
        text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
        head = _HEAD.pack(
            self.magic, self.version, kind.encode().ljust(16, b"\0"), digest, len(text)
        )
        checksum = hashlib.sha256(head + text)
        yield head + text
        for array in arrays:
            part = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).view(np.uint8).data
            checksum.update(part)
            yield part
        yield checksum.digest()

    def unpack(self, kind: str, data: bytes) -> Reader:
        """The frame of `data`, its checksum verified.

        Raises:
            SerializationError: truncated, altered or foreign bytes, another kind or version.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise damaged(kind, f"{type(data).__name__} was given")
        view = memoryview(data)
        view = view.cast("B") if view.c_contiguous else memoryview(bytes(view))
        if len(view) < _HEAD.size + _CHECKSUM or bytes(view[:8]) != self.magic:
            raise damaged(kind, "they do not begin as Ren's do, or are cut short")
        _, version, found, digest, size = _HEAD.unpack_from(view)
        if version != self.version:
            raise damaged(kind, f"they are of version {version}, this library reads {self.version}")
        if (found := found.rstrip(b"\0").decode("ascii", "replace")) != kind:
            raise damaged(kind, f"they are a {found}")
        body, checksum = view[:-_CHECKSUM], view[-_CHECKSUM:]
        if hashlib.sha256(body).digest() != bytes(checksum):
            raise damaged(kind, "the checksum does not match")
        if size > min(_MAX_HEADER, len(body) - _HEAD.size):
            raise damaged(kind, "the header is too long")
        return Reader(
            kind, digest, _json(kind, body[_HEAD.size :][:size]), body[_HEAD.size + size :]
        )


def limbs_of(*polys: Poly, is_ntt: bool = True) -> list[NDArray[np.uint32]]:
    """Limb arrays of polynomials on the host, in the NTT domain or, without it, in their own.

    Raises:
        TracedValueError: inside a JAX transformation.
        DeviceError: other processes hold a part of them alone.
    """
    check_addressable(*(p.node for p in polys))
    realized = realize_polys([p.ntt() if is_ntt else p for p in polys])
    if any(is_tracer(p.limbs) for p in realized):
        raise TracedValueError(
            "Bytes of an encoded object were asked for inside a JAX transformation.",
            "There, it has no values.",
            "Return it from the transformed function, and call to_bytes() outside.",
        )
    return [on_host(p.limbs) for p in realized]


def _json(kind: str, text: memoryview) -> dict[str, Any]:
    try:
        header = json.loads(bytes(text))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise damaged(kind, "the header cannot be read")
    return header


def damaged(kind: str, why: str) -> SerializationError:
    """The error for bytes that are not what they should be."""
    return SerializationError(
        f"These bytes are not a {kind}: {why}.",
        f"from_bytes reads what to_bytes() of a {kind} wrote, whole and unchanged.",
        "Write them again from the original object.",
    )


# ------------------------------------------------------------------- files


def write(path: PathLike, data: bytes | Iterable[bytes | memoryview], mode: int = SHARED) -> None:
    """Writes `data`, or its parts, to a file that appears, or replaces another, at once.

    A symbolic link stays: the file that it names is written. So does the mode of a file that was
    there, but for what `mode` forbids. A device or a pipe is written to.

    Raises:
        OperandError: not a path.
        ParameterError: an empty path.
        OSError: the place cannot be written to; what was there stays.
    """
    target = _path_of(path, "file.write(x.to_bytes())")
    try:
        if _is_special(target):
            with target.open("wb") as file:
                file.writelines([data] if isinstance(data, bytes) else data)
        else:
            _replace(Path(os.path.realpath(target)), data, mode)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(target)) from None  # not a hidden name


def _is_special(target: Path) -> bool:
    """True for a device, a pipe or a socket: it has no place beside it that could replace it."""
    try:
        found = target.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(found) or stat.S_ISDIR(found))


def _replace(target: Path, data: bytes | Iterable[bytes | memoryview], mode: int) -> None:
    """Writes a file beside the target, then renames it."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    kept = target.stat().st_mode & mode if target.exists() else None
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            if kept is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), kept)
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def read(path: PathLike) -> bytes:
    """The bytes of a file.

    Raises:
        OperandError: not a path.
        ParameterError: an empty path.
        OSError: no file, or one that cannot be read.
    """
    return _path_of(path, "the class method from_bytes(file.read())").read_bytes()


def _path_of(path: Any, of_stream: str) -> Path:
    try:
        if not os.fspath(path):
            raise ParameterError(
                f"{user_line()} passes an empty path.",
                "A file has a name, after the folder that it is in.",
                "Write for example x.save('x.ren') and ckks.Ciphertext.load('x.ren').",
            )
        return Path(path)
    except TypeError:
        raise OperandError(
            f"{user_line()} passes {kind_of(path)} in place of a path.",
            "A file is named by its path: it is written whole or not at all.",
            f"Pass a str or a pathlib.Path. For a file that is open write {of_stream}.",
        ) from None


class Stored:
    """Gives a class with `to_bytes` and `from_bytes` their counterparts for files."""

    __slots__ = ()

    def save(self: Any, path: PathLike) -> None:
        """Writes `to_bytes()` to a file, whole or not at all.

        Raises:
            OperandError: not a path.
            ParameterError: an empty path.
            OSError: the place cannot be written to.
        """
        write(path, self.to_bytes())

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """The object that `save` wrote; the data of others is as safe to load as from bytes.

        Raises:
            SerializationError: a file that is truncated, altered or foreign.
            OperandError: not a path.
            ParameterError: an empty path.
            OSError: no file, or one that cannot be read.
        """
        whole: Any = cls
        return whole.from_bytes(read(path))
