"""Contexts from bytes: `ckks.load_context` reads any of them, `ckks.load_server` a server's."""

from __future__ import annotations

from ren.core.errors import SerializationError
from ren.schemes.ckks.context import Context


def load_context(data: bytes, include_secret: bool = False) -> Context:
    """Read the context that `to_bytes` wrote, of an owner, a server or a public context.

    `ckks.Context.load(path)` does the same for a file.

    Args:
        data: the bytes.
        include_secret: True for your own backup, which holds the secret key; never for bytes that
            others sent.

    Returns:
        A context with the keys that the bytes hold.

    Raises:
        SerializationError: not the bytes of a context, truncated, altered or foreign ones; a secret
            key while `include_secret` is False.
        ContextError: a live context with this `key_id` has a key of one name that differs.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1)
        >>> again = ckks.load_context(ctx.public().to_bytes())
        >>> ctx.decrypt(again.encrypt([1.0, 2.0])).round(3)
        array([1., 2.])
    """
    return Context.from_bytes(data, include_secret)


def load_server(data: bytes, include_secret: bool = False) -> Context:
    """The context of `ctx.server().to_bytes()`: `load_context`, without public contexts.

    Args:
        data: the bytes, with evaluation keys; those of a server without any, for `adopt` later.
        include_secret: as for `load_context`.

    Raises:
        SerializationError: as `load_context`. Also the bytes of a public context, which holds
            no evaluation key and computes neither products nor rotations.
        ContextError: as `load_context`.
    """
    result = load_context(data, include_secret)
    if result.rank == 0 and result._keys.public is not None:
        raise SerializationError(
            "ckks.load_server() got the bytes of a public context.",
            "It encrypts; a server computes, and takes evaluation keys, of which these hold none.",
            "Send ctx.server().to_bytes(); ckks.load_context(data) reads a public context.",
        )
    return result
