"""Contexts: `ckks.context` makes an owner's from a depth, `ckks.load_context` reads bytes.

And ciphertexts of polynomials that the user made, by `ckks.from_polys`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import DTypeLike

from ren.core.errors import OperandError, ParameterError, SerializationError, kind_of, shown
from ren.poly import Poly
from ren.poly.realization import is_capturing
from ren.schemes.ckks.analysis.requirements import Requirements
from ren.schemes.ckks.arithmetic.argument_checks import as_bound
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.context import Context
from ren.schemes.ckks.encoding.plaintext import layout_of, level_of
from ren.schemes.ckks.encoding.serialization import HOLDS_SECRET
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.parameters import checks
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import Kept
from ren.schemes.rlwe.keychain import new_keychain

_DEFAULTS = {"scale_bits": 40, "security": 128}  # of the wishes below; None of the others


def context(
    depth_or_plan: int | Requirements | None = None,
    /,
    *,
    depth: int | Requirements | None = None,
    scale_bits: int = 40,
    security: int | None = 128,
    n: int | None = None,
    slots: int | None = None,
    integer_bits: int | None = None,
    params: Parameters | None = None,
    rotations: Literal["auto"] | Iterable[int] | Mapping[int, int] = "auto",
    bound: float | None = None,
    strict: bool | None = None,
    bootstrapping: bool | Literal["auto"] = False,
    precision: float = 20.0,
    failure: float = 2.0**-64,
) -> Context:
    """A fresh owner's context: parameters for `depth` products in a row, and new random keys.

    Args:
        depth_or_plan: how many multiplications in a row a fresh ciphertext bears. Or what
            `ren.plan` found for a function: its parameters, and the keys that it uses, at their
            levels. Only `slots`, `bound` and `strict` are chosen beside it.
        depth: the same, by its name.
        scale_bits: log2 of the scale: about scale_bits - 15 bits after the point are right.
        security: 128, 192 or 256 bits; None allows parameters that are not secure.
        n: the ring degree; None for the least that is secure.
        slots: numbers in a ciphertext, a power of two up to n/2; None for n/2.
        integer_bits: at level 0 messages lie in (-2^(integer_bits-1), 2^(integer_bits-1)). None
            for 10, or for more where these cost nothing: see `Parameters.for_depth`.
        params: parameters made before, beside which only `slots`, `rotations`, `bound` and
            `strict` are chosen.
        rotations: "auto" makes the key of a rotation on its first use. The keys of given steps are
            made at once, for all levels or for those of a mapping: see `Context.rotation_keys`.
        bound: of the modulus of all that will be encrypted. It is public, and the same for all
            messages; `encrypt` raises beyond it. Without one each ciphertext tells the power of two
            above its largest number.
        strict: raise `MessageBoundError` where a tracked bound leaves the range of its level or a
            function's interval. Otherwise, the default, warn.
        bootstrapping: True for parameters under which `ct.bootstrap()` gives back levels. The depth
            is then that between two bootstraps; the one with the least time a level when None. The
            bound is that of real and imaginary parts at a bootstrap too, 1.0 when None. "auto":
            then an operation that lacks levels bootstraps its operands, each ciphertext once.
        precision: with `bootstrapping`, the bits that are right after a bootstrap, 8 to 40. Beyond
            20 it runs twice, and takes scale_bits of 18 more: precision=40, scale_bits=60.
        failure: with `bootstrapping`, the largest probability that one bootstrap destroys its
            ciphertext.

    Raises:
        InsecureParametersError: a depth that is not secure at `n`.
        ParameterError: what cannot be met, and what can. Also a wish beside a plan or `params` that
            fixes it to another value.
    """
    if isinstance(rotations, str) and rotations != "auto":
        raise ParameterError(
            f"ckks.context() got rotations={rotations!r}.",
            'It is "auto", or the steps whose keys are to be made at once.',
            "Write for example rotations=[1, 2, 4].",
        )
    if depth_or_plan is not None and depth is not None:
        raise _clash(depth_or_plan, {"depth": depth})
    depth = depth if depth_or_plan is None else depth_or_plan
    if isinstance(depth, Parameters):
        raise ParameterError(
            "ckks.context() got parameters as its depth.",
            "What stands first is a depth or a plan.",
            "Write ckks.context(params=params).",
        )
    checks.check_bootstrapping(bootstrapping)
    _check_wishes_of_bootstraps(bootstrapping, precision, failure)
    wishes: dict[str, Any] = {
        "scale_bits": scale_bits, "security": security, "n": n, "integer_bits": integer_bits,
    }  # fmt: skip
    if bootstrapping and (params is not None or isinstance(depth, Requirements)):
        raise _clash(params if params is not None else depth, {"bootstrapping": bootstrapping})
    if isinstance(depth, Requirements):
        _check_fixed(depth, depth.params, {**wishes, "params": params, "rotations": rotations})
        plan, rotations = depth, depth.rotation_levels
        result = context(
            params=plan.params, slots=slots, rotations=rotations, bound=bound, strict=strict
        )
        result = result.bootstrapping_keys() if plan.bootstraps else result
        return result.conjugation_key(plan.conjugation_level) if plan.needs_conjugation else result
    if params is not None and not isinstance(params, Parameters):
        raise ParameterError(
            f"ckks.context() got params={params!r:.60}, {kind_of(params)}.",
            "They are a ckks.Parameters.",
            'Write for example params=ckks.Parameters.preset("n14-depth4").',
        )
    if params is None and bootstrapping:
        if not isinstance(depth, int | None):
            raise ParameterError(
                f"ckks.context(bootstrapping=True) got depth={depth!r:.40}.",
                "The depth is a number of levels.",
                "Write for example ckks.context(depth=8, bootstrapping=True).",
            )
        params = Parameters.for_bootstrapping(
            depth, scale_bits=scale_bits, security=security, n=n, integer_bits=integer_bits,
            precision=precision, failure=failure, bound=bound, strict=bool(strict),
            is_automatic=bootstrapping == "auto", slots=slots,
        )  # fmt: skip
    elif params is None:
        if depth is None:
            raise ParameterError(
                "ckks.context() got neither a depth nor parameters.",
                "The depth is the number of multiplications in a row that you need.",
                "Write for example ckks.context(depth=4).",
            )
        params = Parameters.for_depth(
            depth, scale_bits=scale_bits, security=security, n=n, slots=slots,
            integer_bits=integer_bits, bound=bound, strict=False if strict is None else strict,
        )  # fmt: skip
    else:
        _check_fixed(params, params, {**wishes, "depth": depth})
        choices = {"slots": slots, "bound": bound, "strict": strict}
        params = attrs.evolve(params, **{k: v for k, v in choices.items() if v is not None})
    result = Context(params, new_keychain(params))
    return result if isinstance(rotations, str) else result.rotation_keys(rotations)


def _check_wishes_of_bootstraps(bootstrapping: Any, precision: Any, failure: Any) -> None:
    wishes = {"precision": (precision, 20.0), "failure": (failure, 2.0**-64)}
    given = [f"{name}={shown(wish)}" for name, (wish, usual) in wishes.items() if wish != usual]
    if not bootstrapping and given:
        raise ParameterError(
            f"ckks.context() got {', '.join(given)}.",
            "Precision and failure are those of a bootstrap.",
            "Write ckks.context(bootstrapping=True, ...), or leave them out.",
        )


def _check_fixed(source: Any, params: Parameters, wishes: dict[str, Any]) -> None:
    """Raise where a wish differs from what a plan, or parameters, fix."""
    clashes = {name: wish for name, wish in wishes.items() if _is_clash(name, wish, params)}
    if clashes:
        raise _clash(source, clashes)


def _is_clash(name: str, wish: Any, params: Parameters) -> bool:
    """Whether a wish is neither the default nor what the parameters have."""
    if name == "rotations":
        return not isinstance(wish, str)  # "auto"
    fixed = params if name == "params" else getattr(params, name)
    return wish != _DEFAULTS.get(name) and wish != fixed


def _clash(source: Any, wishes: dict[str, Any]) -> ParameterError:
    """The error for wishes beside a plan, parameters or a depth."""
    told, names = ", ".join(f"{k}={v!r:.60}" for k, v in wishes.items()), " and ".join(wishes)
    if isinstance(source, Requirements):
        is_taken = wishes.keys() <= {"scale_bits", "security", "n", "integer_bits"}
        return ParameterError(
            f"ckks.context() got a plan and {told}.",
            f"The plan fixes parameters and keys: depth={source.depth}, n={source.params.n}, "
            f"rotations={list(source.rotations)!r:.40}.",
            f"Leave {names} out, or pass {'it' if len(wishes) == 1 else 'them'} to ren.plan."
            if is_taken
            else f"Leave {names} out; or leave the plan out, and pass rotations=plan.rotations.",
        )
    if isinstance(source, Parameters):
        return ParameterError(
            f"ckks.context() got params and {told}.",
            f"The parameters fix that: they are {source!r}.",
            f"Leave {names} out, or make other parameters: ckks.Parameters.for_depth.",
        )
    return ParameterError(
        f"ckks.context() got two depths, {source!r:.60} and {told}.",
        "It makes a context of one depth.",
        "Leave one of them out.",
    )


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


def load_server(data: bytes) -> Context:
    """The context of `ctx.server().to_bytes()`: `load_context`, of servers alone.

    Args:
        data: the bytes, with evaluation keys; those of a server without any, for `adopt` later.

    Raises:
        SerializationError: as `load_context`. Also the bytes of an owner's context, which hold the
            secret key. And those of a public one, which computes neither products nor rotations.
        ContextError: as `load_context`.
    """
    try:
        result = load_context(data)
    except SerializationError as error:
        if error.given != HOLDS_SECRET:
            raise
        raise SerializationError(
            "ckks.load_server() got the bytes of an owner's context, which hold a secret key.",
            "A server computes, and cannot decrypt: that key stays with its owner.",
            "Send ctx.server().to_bytes(). ckks.load_context(data, include_secret=True) reads your "
            "own backup.",
        ) from None
    if result.rank == 0 and result._keys.public is not None:
        raise SerializationError(
            "ckks.load_server() got the bytes of a public context.",
            "It encrypts; a server computes, and takes evaluation keys, of which these hold none.",
            "Send ctx.server().to_bytes(); ckks.load_context(data) reads a public context.",
        )
    return result


def from_polys(
    context: Context,
    c0: Poly,
    c1: Poly,
    level: int | None = None,
    *,
    length: int | None = None,
    dtype: DTypeLike = float,
    bound: float | None = None,
    error: float | None = None,
) -> Ciphertext:
    """The ciphertext (c0, c1) of a scheme or a protocol that was written with `ren.Poly`.

    It decrypts to c0 + c1 s over the scale of its level, with the secret s that it was made for.
    `ct.polys` are its polynomials, `ctx.encode(values).poly` is that of a plaintext, and
    `ctx.decode` gives the numbers of one.

    Args:
        context: of any kind: it has the parameters and the keys for what follows. Without keys
            there are sums, and products with what is in the clear.
        c0, c1: over `params.ring(level)`, in either domain; batch axes come first.
        level: None for that of their ring.
        length: how many numbers, from slot 0 on; None for all slots.
        dtype: real, or complex for complex numbers.
        bound: of the modulus of the numbers in all slots. It is public.
        error: of each number, at most. Bound and error are stated, and never checked. Without both
            nothing is known of either. Then `decrypt` warns of it, and rounds no integers.

    Raises:
        OperandError: not two polynomials, or no context.
        ParameterError: rings of two levels or of none, or a length that is not from 1 to the slots.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1)
        >>> x = ctx.encrypt([1.0, 2.0])
        >>> again = ckks.from_polys(ctx, *x.polys, length=2, bound=2.0, error=2.0**-20)
        >>> (again + x).decrypt().round(3)
        array([2., 4.])
    """
    if not isinstance(context, Context):
        raise OperandError(
            f"ckks.from_polys() got {kind_of(context)} as the context.",
            "The parameters and the keys of a context go with a ciphertext.",
            "Write ckks.from_polys(ctx, c0, c1).",
        )
    params, what = context.params, "ckks.from_polys()"
    at = level_of(c0, level, params, what)
    level_of(c1, at, params, what)
    is_complex = np.dtype(dtype).kind == "c"
    layout, batch = layout_of(length, params.slots, is_complex, what), c0.shape[:-2]
    if batch != c1.shape[:-2]:
        raise ParameterError(
            f"{what} got polynomials with batch axes {batch} and {c1.shape[:-2]}.",
            "Each ciphertext of a batch has both of its polynomials.",
            "Pass two batches of one shape.",
        )
    noise = np.full((*batch, noises.WIDTH), np.nan, np.float32)
    if bound is not None and error is not None:
        noise[...] = 0
        noise[..., :2] = as_bound(bound), as_bound(error)
    kept = None if is_capturing() else Kept(context)
    polys = c0.ntt(), c1.ntt()
    return Ciphertext(polys, at, layout, context.key_id, params, noise, keeps=kept)
