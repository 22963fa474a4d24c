"""Context: the keys of one owner under one set of parameters, and what they can do."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Iterable, Mapping
from numbers import Complex
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ren.capture.programs import Integers
from ren.core import html
from ren.core.attributes import frozen
from ren.core.errors import MissingKeyError, OperandError, ParameterError, RandomnessError, kind_of
from ren.core.listed import Listed
from ren.core.ring import RingSpec
from ren.core.text_table import size
from ren.lowering.devices.devices import is_tracing
from ren.lowering.devices.trace_inputs import is_transforming, trace_inputs
from ren.lowering.runtime.host_arrays import centered
from ren.poly import Poly
from ren.poly.calls import check_methods
from ren.poly.display import steady
from ren.poly.key_ids import call_name, note_missing
from ren.poly.realization import is_capturing, not_capturing, symbolic_value
from ren.poly.symbolic import as_symbol
from ren.sampling import fresh_seed
from ren.schemes.ckks.arithmetic import rotation
from ren.schemes.ckks.arithmetic.argument_checks import as_bound, as_integers, check_ciphertext
from ren.schemes.ckks.arithmetic.number_types import (
    as_type,
    check_roundable,
    converted,
    implied,
)
from ren.schemes.ckks.arithmetic.operation_hooks import check_read, check_readable
from ren.schemes.ckks.bootstrapping.keys import check_memory, made_keys
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.encoding import encoder, plaintext, serialization
from ren.schemes.ckks.encoding.ciphertext_data import with_fields
from ren.schemes.ckks.encoding.layout import LEFTOVERS, ZEROS, Layout
from ren.schemes.ckks.encoding.packing import Packing
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.encoding.refusals import made_by, no_attribute
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import range_checks
from ren.schemes.ckks.noise.decryption_budget import SharingTerms, ledger_of
from ren.schemes.ckks.noise.estimate import Estimate
from ren.schemes.ckks.noise.sigmas import public_sigma, secret_sigma
from ren.schemes.ckks.noise.spans import Span
from ren.schemes.ckks.parameters.bootstrapping import labels
from ren.schemes.ckks.parameters.bootstrapping.chain import chain_of
from ren.schemes.ckks.parameters.checks import as_python_int
from ren.schemes.ckks.parameters.display import parameter_parts, parameter_text, security_marks
from ren.schemes.ckks.parameters.keywords import INSTEAD, OF_CONTEXTS
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.ckks.sharing import hidden
from ren.schemes.rlwe import active_context as active
from ren.schemes.rlwe import encryption
from ren.schemes.rlwe.active_context import passed_over
from ren.schemes.rlwe.frame import PRIVATE, SHARED, PathLike, read, write
from ren.schemes.rlwe.keychain import Keychain, missing_key
from ren.schemes.rlwe.keys import Entropy, SwitchingKey, sizes
from ren.schemes.rlwe.keyswitch import (
    conjugation_element,
    gadget_of,
    galois_element,
    steps_by_element,
)
from ren.schemes.rlwe.ownership import require_one_owner, require_owned

_LISTED = 16  # steps in a sentence; more are in the call alone
_CALLS = 4  # in a sentence
_MOST_NAMES = 24  # of keys on a page


@steady("_keys")
class Context(metaclass=Listed):
    """Keys under one `key_id`; made by `ckks.context`, `.server()`, `.public()` or `from_bytes`.

    An owner's context holds the secret: it encrypts, decrypts and makes evaluation keys. A server
    context holds evaluation keys only: it computes, and is a pytree. A public one encrypts.

    Attributes:
        params: the parameters.
        key_id: public, a hash of the owner's keys; data under another one does not mix with this.
    """

    __internal__ = ("galois_key", "labelled_key", "missing", "slots_of")

    params: Parameters

    def __init__(self, params: Parameters, keys: Keychain, entropy: Entropy = fresh_seed) -> None:
        object.__setattr__(self, "params", params)
        self._keys, self._entropy = keys, entropy
        self._lock = threading.RLock()
        active.register(self)

    if not TYPE_CHECKING:  # a type checker refuses unknown names by itself

        def __setattr__(self, name: str, value: Any) -> None:
            if not name.startswith("_"):
                _refuse_assignment(self, name)
            object.__setattr__(self, name, value)

    @property
    def key_id(self) -> str:
        """32 hexadecimal digits, public."""
        return self._keys.key_id

    @property
    def slots(self) -> int:
        """Number of values that a ciphertext holds."""
        return self.params.slots

    @property
    def rank(self) -> int:
        """2 with the secret, 1 with evaluation keys, 0 with the public key alone."""
        return self._keys.rank

    # ---------------------------------------------------------------- data

    def encode(
        self,
        values: Any,
        level: int | None = None,
        bound: float | None = None,
        *,
        pack: str | None = None,
    ) -> Plaintext:
        """A plaintext that can be added and multiplied many times.

        Args:
            values: real or complex: a vector [k], a table [r, c], a nested list, a DataFrame. A
                scalar fills all slots. Beyond `slots` numbers vectors are cut into blocks, on which
                operators work block by block.
            level: default the top; at a lower level it is smaller.
            bound: of the modulus of the values. Ciphertexts that the plaintext is added to or
                multiplied with tell of it, and it is public. None for the power of two above.
            pack: which numbers of an array of two or more axes share a ciphertext. "flat": all, one
                after another in C order, as of an image. "rows": those of a row, the leading axes
                being batch axes. "columns": those of a column. None for the fewest: "flat".

        Raises:
            ParameterError: values that are not numbers, are too large for the level, or beyond
                `bound`; another `pack`.
        """
        at, bound = self._level(level), None if bound is None else as_bound(bound)
        packing = Packing.of(pack)
        vectors, shape = packing.vectors(values)
        p = plaintext.encode(
            vectors, self.params, at, at_once=not is_capturing(), bound=bound, is_kept=True
        )
        return with_fields(p, layout=packing.labelled(p.layout, shape))

    def encrypt(
        self,
        values: Any,
        level: int | None = None,
        bound: float | None = None,
        *,
        pack: str | None = None,
        nan: float | None = None,
    ) -> Ciphertext:
        """A fresh ciphertext, with the secret key where it is held, else with the public key.

        Args:
            values: as in `encode`.
            level, pack: as in `encode`.
            bound: of the modulus of the values. It travels with the ciphertext, for estimates of
                its noise, and is public. None for that of `ckks.context(bound=)`; where there is
                none either, the ciphertext tells the next power of two, 1 at least.
            nan: the number that stands for NaN among the values; without it NaN raises.

        Raises:
            ParameterError: values beyond `bound`, NaN, infinity, or another `pack`.
            MissingKeyError: a server context, which holds neither key.
            RandomnessError: inside a JAX transformation, where the noise of one encryption would
                be used again at every run. Under `ren.jit` it is drawn anew at every replay.
        """
        if is_transforming():
            raise RandomnessError(
                "encrypt() was called inside a JAX transformation.",
                "Its noise would be drawn once and used at every run.",
                "Encrypt outside and pass the ciphertext in.",
            )
        at, params = self._level(level), self.params
        bound = params.bound if bound is None else as_bound(bound)
        packing, values = Packing.of(pack), _finite(encoder.of_frame(values), nan)
        vectors, shape = packing.vectors(values)
        message, layout, slots = _message(vectors, at, params)
        polys, seed = encryption.encrypt(message, self._keys, params, self._entropy)
        sigma_of = public_sigma if self._keys.secret is None else secret_sigma
        scale, serial = float(params.scale(at)), next(noises.serials)
        noise = noises.fresh(slots, params, scale, sigma_of(params, at), serial, bound)
        noise = range_checks.reported_if_unknown(noise, "encrypt()", params)
        tail = ZEROS if layout.length is not None else LEFTOVERS
        layout = packing.labelled(layout, shape).with_tail(tail)
        kept = None if is_capturing() else active.Kept(self)
        span = Span(0.0, 1.0) if _is_truth(values) else None
        fields = {"keeps": kept, "span": span, "stated_dtype": implied(values)}
        return Ciphertext(polys, at, layout, self.key_id, params, noise, seed, **fields)

    def _level(self, level: int | None) -> int:
        result: int = as_python_int(self.params.depth if level is None else level)
        return result

    def decrypt(self, x: Ciphertext, dtype: DTypeLike | None = None) -> NDArray:
        """The message of `x`, with the shape and the type of numbers that went in.

        The time depends on parameters, level, batch axes and layout. It does not depend on the
        message: no step from the ciphertext to the values branches on a value. For integers one
        step after that does: it checks that the type holds them.

        Args:
            dtype: the type of the numbers. For integers and booleans they are rounded to the
                nearest. By default that of `ckks.typed`, or of the arrays that went in, where
                operations keep it. Else it is float64 or complex128, as of lists.

        Raises:
            ContextError: `x` is under another key.
            MissingKeyError: this context holds no secret key.
            TracedValueError: inside a function that is being captured or planned.
            PrecisionError: numbers far beyond the tracked bound, as of limbs that were changed
                outside of Ren's operations. Integers whose estimated error is not below 1/2, or
                that the type does not hold.
            ParameterError, OperandError: another type, or a real type for complex numbers.
        """
        self._check_own(x, "decrypt()")
        wanted = x.dtype if dtype is None else as_type(x, dtype, "decrypt()")
        slots = self._read(x, "decrypt()")
        values = x.layout.unpacked(slots)
        check_roundable(x, wanted)
        return converted(values, wanted)

    def decrypt_shared(
        self,
        x: Ciphertext,
        plan: Estimate | float,
        *,
        queries: int,
        statistical_bits: int = 30,
        noise: float | None = None,
    ) -> NDArray:
        """The message of `x` for others to see, with noise that hides what the error tells.

        Posting a decryption is sharing it, and so is acting on it visibly; `decrypt` is for the
        owner's eyes. The noise costs precision. At scale 2^40, 30 bits and one query about 8 bits
        are left of a fresh ciphertext, 6 of 10 queries. At scale 2^60 it is 20 bits more. The
        logger "ren" reports the number, and `ren.plan(f, ..., shared=queries)` finds a scale at
        which the noise is useful. The budget belongs to
        the key, is one in a process and is saved with the secret. Two processes do not see each
        other. Share in one, and save the context afterwards; an older copy of it counts from where
        it was.

        Args:
            x: the ciphertext. The noise estimate that came with it is not used: others wrote it.
            plan: your own bound of its error, or a number. The bound is `f(x).estimate` for the
                function f that others run, on ciphertexts of your own (nothing is computed).
            queries: how many ciphertexts are decrypted so under these keys, in all.
            statistical_bits: the advantage left to an attack is about 2^-statistical_bits.
            noise: the standard deviation of the noise that you accept, in units of the numbers. By
                default the noise is below the largest number that is decrypted. Then whether this
                call raises tells of that number; state `noise` where others see that it raised.

        Returns:
            As `decrypt`, float64 or complex128; for the same ciphertext the same again, at no cost.

        Raises:
            SharingError: more than `queries`, other terms than before, or more noise than is
                accepted. Nothing is spent then. It names a `scale_bits` that would do.
            PrecisionError: numbers far beyond the tracked bound, as of `decrypt`.
            ParameterError: `noise` is not a positive number.
            MissingKeyError: this context holds no secret key.
        """
        self._check_own(x, "decrypt_shared()")
        terms = SharingTerms(statistical_bits, queries, noise=noise)
        slots = self._read(x, "decrypt_shared()")
        shared = hidden(x, slots, plan, terms, self._keys.require_secret())
        return x.layout.unpacked(shared)

    def _read(self, x: Ciphertext, what: str) -> NDArray[np.complex128]:
        """All slots of `x`, compared with its tracked bound before and after."""
        check_readable(x, what)
        slots = self.slots_of(x)
        check_read(x, slots, what)
        return slots

    def slots_of(self, x: Ciphertext) -> NDArray[np.complex128]:
        """All slots of `x`, also beyond what went in: [*batch, slots]."""
        check_ciphertext(x, "slots_of()")
        if self.rank < 2 and is_capturing():
            raise symbolic_value()
        secret = self._keys.require_secret()
        coefficients = encryption.decrypt_coefficients(x.polys, secret)
        return encoder.decode(coefficients, x.n, x.slots, x.scale)

    def decode(
        self,
        poly: Poly | Plaintext,
        level: int | None = None,
        length: int | None = None,
        dtype: DTypeLike = float,
    ) -> NDArray:
        """The numbers that a polynomial stands for, such as the sum of decryption shares.

        Nothing is decrypted and no noise is added: what is shown of a decryption may tell of the
        secret. See `ckks.from_polys` for the way back.

        Args:
            poly: over `params.ring(level)`, in either domain, with numbers times the scale of that
                level. Or a plaintext, which has its level, its length and its kind of numbers.
            level: None for that of its ring.
            length: how many numbers, from slot 0 on; None for all slots.
            dtype: of the numbers: real or complex; for integers they are rounded.

        Returns:
            [*batch, length].

        Raises:
            OperandError: not a polynomial.
            ParameterError: over another ring, or a length that is not from 1 to the slots.
            TracedValueError: in a function that is captured or traced.
        """
        if isinstance(poly, Plaintext):
            return poly.layout.unpacked(plaintext.decoded(poly))
        at, wanted = plaintext.level_of(poly, level, self.params, "decode()"), np.dtype(dtype)
        layout = plaintext.layout_of(length, self.slots, wanted.kind == "c", "decode()")
        coefficients = centered(poly._host_limbs(), poly.ring.moduli)
        slots = encoder.decode(coefficients, self.params.n, self.slots, self.params.scale(at))
        return converted(layout.unpacked(slots), wanted)

    def _check_own(self, x: Ciphertext, what: str) -> None:
        check_ciphertext(x, what)
        active.own_key(self.key_id, x.key_id, what)

    # ---------------------------------------------------------------- keys

    def relinearization_key(self) -> SwitchingKey:
        """The key from s^2 to s; rests on circular security."""
        key = self._keys.relinearization
        return self._without(None, call_name("A product of ciphertexts")) if key is None else key

    def galois_key(self, galois: int, what: str, ring: RingSpec) -> SwitchingKey:
        """The key of X -> X^galois over `ring` at least, for `what`.

        Where the secret is held, it is made on first use, for all levels.

        Raises:
            MissingKeyError: it is not there, and cannot be made here and now.
        """
        if (key := self._keys.galois_for(galois, ring.moduli)) is not None:
            return key
        if self._keys.secret is None or (is_tracing() and trace_inputs.get() is None):
            return self._without(galois, what)
        self._make_galois({galois: self.params.moduli_to()})
        return self._keys.galois[galois]

    def _without(self, galois: int | None, what: str) -> SwitchingKey:
        """A placeholder for a key that `what` needs; None for relinearization.

        Raises:
            MissingKeyError: no call or capture goes on, which may need more keys.
        """
        note_missing(self, galois, what)
        return missing_key(gadget_of(self.params))

    def labelled_key(self, label: str, what: str) -> SwitchingKey:
        """The key of a bootstrap with this label, for `what`; all are made on first use.

        Raises:
            MissingKeyError: it is not there, and cannot be made here and now.
        """
        if (key := self._keys.labelled.get(label)) is not None:
            return key
        if self._keys.secret is None or (is_tracing() and trace_inputs.get() is None):
            note_missing(self, label, what)
            return missing_key(labels.gadget_of(label, chain_of(self.params)))
        return self.bootstrapping_keys()._keys.labelled[label]

    def missing(self, keys: dict[int | str | None, str]) -> MissingKeyError:
        """The error for keys that calls lack: by galois element, None for relinearization.

        Those of a bootstrap are named by labels.
        """
        if any(isinstance(key, str) for key in keys):
            return self._missing_for_bootstrap()
        if keys.keys() == {None}:
            self._keys.require_relinearization()
        is_owner, fewest = (
            self._keys.secret is not None,
            steps_by_element(self.params.n, self.slots),
        )
        steps = sorted((fewest[g] for g in keys if g in fewest), key=lambda k: (abs(k), k))
        conjugates, relinearizes = conjugation_element(self.params.n) in keys, None in keys
        uses = [f"rotation by {_listed(steps)}"] if 0 < len(steps) <= _LISTED else []
        uses += [f"{len(steps)} rotations"] if len(steps) > _LISTED else []
        uses += [self._use(g) for g in keys if isinstance(g, int) and g not in fewest]
        uses += ["relinearization"] * relinearizes
        call = f"ctx{f'.rotation_keys({steps})' if steps else ''}"
        call += ".conjugation_key()" * conjugates
        calls = [c if c[:2] != "A " else f"a{c[1:]}" for c in dict.fromkeys(keys.values())]
        if len(calls) > _CALLS:
            calls[_CALLS:] = [f"{len(calls) - _CALLS} more"]
        told = _listed(calls)
        told = f"A{told[1:]}" if told.startswith("a ") else told
        needs = f"{told} {'needs' if len(calls) == 1 else 'need'} the key{'s' * (len(keys) > 1)}"
        parts = [self._name(g) for g in keys if isinstance(g, int) and g in self._keys.galois]
        more = [f"{len(parts) - _CALLS} more"] if len(parts) > _CALLS else []
        lacks = f" at their levels: there is {_listed([*parts[:_CALLS], *more])}" if parts else ""
        if not parts and any(keys.keys() <= _held(c._keys) for c in passed_over(self)):
            return MissingKeyError(
                f"{needs} for {_listed(uses)}, which this context lacks{lacks}.",
                "Another live context of the same owner has it. Of several the latest computes.",
                "Enter the other one, `with other:`, or give this one its keys: this.adopt(other).",
            )
        return MissingKeyError(
            f"{needs} for {_listed(uses)}, "
            f"{'not made yet' if is_owner else 'which this context lacks'}{lacks}.",
            "Keys are never made inside a JAX transformation."
            if is_owner
            else "Only the owner of the secret key makes keys.",
            f"Call {call} first."
            if is_owner
            else f"There, call {call} before ctx.server()"
            f"{', which holds the relinearization key' * relinearizes}. "
            f"{'With rotations= it takes conjugation=True too. ' * conjugates}"
            "ckks.plan(f, ...).rotations has those of a whole function f.",
        )

    def rotation_keys(
        self, steps: int | Iterable[int] | Mapping[int, int], level: int | None = None
    ) -> Context:
        """Makes the keys for rotation by each of `steps` that are not there; returns itself.

        Args:
            steps: one or several. Or a mapping from steps to the highest level at which each
                serves, as `ren.plan(f, ...).rotation_levels`.
            level: the highest level at which they serve; None for all. A key for few levels is the
                part of the whole key that these read. It is smaller; results are the same. A
                context that holds the secret makes the rest where it is used above.

        Raises:
            ParameterError: there is no such level; or levels are given twice.
            MissingKeyError: this context holds no secret key.
        """
        self._make_galois(self._moduli(steps, level, "rotation_keys()"))
        return self

    def conjugation_key(self, level: int | None = None) -> Context:
        """Makes the key for conjugation if it is not there; returns itself.

        Args:
            level: the highest level at which it serves; None for all. See `rotation_keys`.
        """
        self._make_galois({conjugation_element(self.params.n): self.params.moduli_to(level)})
        return self

    def _moduli(
        self, steps: int | Iterable[int] | Mapping[int, int], level: int | None, what: str
    ) -> dict[int, tuple[int, ...]]:
        """The moduli that keys of rotations have limbs for, by galois element."""
        wanted = as_integers(steps, what)  # of a mapping its keys
        levels: list[Any] = [level] * len(wanted)
        if isinstance(steps, Mapping):
            if level is not None:
                raise ParameterError(
                    f"{what} got a mapping from steps to levels, and level={level!r:.40}.",
                    "The mapping has the level of each step.",
                    f"Leave level out, or pass the steps alone: {what[:-1]}list(steps), level=3).",
                )
            levels = list(steps.values())
        found: dict[int, tuple[int, ...]] = {}
        for k, highest in zip(wanted, levels, strict=True):
            moduli = self.params.moduli_to(highest)
            if (g := self._galois(k)) != 1 and len(moduli) > len(found.get(g, ())):
                found[g] = moduli
        return found

    def bootstrapping_keys(self) -> Context:
        """Makes the keys that a bootstrap takes, those that are not there; returns itself.

        They are all that a server needs for `ct.bootstrap()`, about 2 GiB at n = 2^16; see
        `ctx.params.bootstrapping`. An owner's bytes hold none of them: it makes equal ones again.

        Raises:
            ParameterError: parameters without bootstrapping; or less memory is free than the keys
                take: then nothing is made.
            MissingKeyError: keys are missing, and this context holds no secret key.
        """
        chain = chain_of(self.params)
        with self._lock, not_capturing():
            missing = [k for k in labels.labels(chain) if k not in self._keys.labelled]
            if missing and self._keys.secret is None:
                raise self._missing_for_bootstrap()
            if missing:
                check_memory(labels.keys_nbytes(chain))
                made = made_keys(missing, self._keys.require_secret(), chain)
                self._keys = self._keys.with_labelled(made)
        return self

    def _missing_for_bootstrap(self) -> MissingKeyError:
        nbytes = size(labels.keys_nbytes(chain_of(self.params)))
        is_owner = self._keys.secret is not None
        return MissingKeyError(
            f"A bootstrap needs its keys, {'not made yet' if is_owner else 'which are not here'}.",
            f"They take {nbytes} in memory, and are made of the secret key.",
            "Call ctx.bootstrapping_keys() first: keys are never made inside a JAX transformation."
            if is_owner
            else "There, call ctx.bootstrapping_keys() before ctx.server().",
        )

    def switching_key(self, other: Context) -> Context:
        """Makes the key that `switch_key` needs, where both secrets are; returns itself.

        Raises:
            ParameterError: the parameters of `other` are not compatible.
            MissingKeyError: one of the two contexts holds no secret key.
        """
        self._check_target(other)
        if other.key_id == self.key_id or other.key_id in self._keys.switches:
            return self
        if self.rank < 2 or other.rank < 2:
            raise MissingKeyError(
                f"The key from {self.key_id[:8]} to {other.key_id[:8]} is not there.",
                "It is made of both secret keys.",
                "Where both are held, call ctx.switching_key(other) before ctx.server().",
            )
        with self._lock, not_capturing():
            self._keys = self._keys.with_switch(other._keys, self.params)
        return self

    def switch_key(self, x: Ciphertext, other: Context) -> Ciphertext:
        """The message of `x` under the key of `other`, at the same level.

        Args:
            x: under the key of this context.
            other: a context of any kind with compatible parameters.

        Raises:
            ContextError: `x` is under another key.
            ParameterError, MissingKeyError: as in `switching_key`.

        Cost: one key switch.
        """
        self._check_own(x, "switch_key()")
        self.switching_key(other)
        if other.key_id == self.key_id:
            return x
        return rotation.switched(x, self._keys.switches[other.key_id], other.key_id)

    def _check_target(self, other: Context) -> None:
        if not isinstance(other, Context) or not self.params.compatible(other.params):
            target = other.params if isinstance(other, Context) else type(other).__name__
            raise ParameterError(
                f"A key was to be switched to that of {target!r}.",
                f"Both contexts have one set of parameters; here it is {self.params!r}.",
                "Make the other context with ckks.context(params=ctx.params).",
            )

    def _make_galois(self, elements: Mapping[int, Iterable[int]]) -> None:
        with self._lock, not_capturing():
            self._keys = self._keys.with_galois(elements, self.params)

    def _galois(self, steps: int) -> int:
        return galois_element(steps % self.slots, self.params.n)

    def _use(self, galois: int) -> str:
        if galois == conjugation_element(self.params.n):
            return "conjugation"
        steps = steps_by_element(self.params.n, self.slots).get(galois)
        return f"galois element {galois}" if steps is None else f"rotation by {steps}"

    def _name(self, galois: int) -> str:
        name, level = self._use(galois), self._reach(galois)
        return name if level in (None, self.params.depth) else f"{name} up to level {level}"

    def _reach(self, galois: int) -> int | None:
        """The highest level at which a key serves that is held; None where it is not."""
        levels = range(self.params.depth, -1, -1)
        moduli = ((level, self.params.moduli_to(level)) for level in levels)
        return next((n for n, m in moduli if self._keys.galois_for(galois, m)), None)

    # ---------------------------------------------------------------- other contexts

    def server(
        self,
        rotations: int | Iterable[int] | Mapping[int, int] | None = None,
        relinearization: bool = True,
        conjugation: bool | None = None,
    ) -> Context:
        """The same context with the evaluation keys made so far, and nothing else.

        Args:
            rotations: the steps to have keys for; None for all keys that were made. Of steps alone
                keys have the levels that they were made for. A mapping from steps to levels cuts
                them to these.
            relinearization: False leaves that key out: products of ciphertexts need it.
            conjugation: whether to have that key, if it was made: maps with paired diagonals, and
                real parts, need it. None has it where `rotations` is None.

        Keys that a server lacks are sent as such a context too; the server takes them over by
        `adopt`.

        Raises:
            MissingKeyError: a key is neither there nor can it be made here.
        """
        keys, held = self._keys, self._keys.galois
        conjugates = conjugation_element(self.params.n)
        conjugation = rotations is None if conjugation is None else conjugation
        if rotations is not None:
            moduli = self._moduli(rotations, None, "server(rotations=)")
            if not isinstance(rotations, Mapping):
                moduli = {g: held[g].ring.moduli if g in held else m for g, m in moduli.items()}
            if conjugation and conjugates in held:
                moduli = {**moduli, conjugates: held[conjugates].ring.moduli}
            self._make_galois(moduli)
            keys = dataclasses.replace(self._keys.cut_to(moduli, self.params), switches={})
        elif not conjugation:
            keys = dataclasses.replace(
                keys, galois={g: key for g, key in held.items() if g != conjugates}
            )
        if not relinearization:
            keys = dataclasses.replace(keys, relinearization=None)
        return Context(self.params, keys.evaluation_only())

    def adopt(self, other: Context) -> Context:
        """Takes over the evaluation keys of `other`, made by the same owner; returns itself.

        Raises:
            OperandError: `other` is not a context.
            ContextError: `other` is under another key, or a key of it is not the owner's.
        """
        if not isinstance(other, Context):
            raise OperandError(
                f"adopt() got {kind_of(other)}.",
                "It takes a context, which holds the evaluation keys.",
                "Read bytes first: server.adopt(ckks.load_server(data)).",
            )
        active.one_owner(self.key_id, other.key_id, "adopt()")
        with self._lock:
            require_one_owner(self._keys, other._keys, self.params, "adopt()")
            require_owned(self._keys, other._keys, self.params, "adopt()")
            self._keys = self._keys.with_keys_of(other._keys)
        return self

    def public(self) -> Context:
        """The same context with the public key alone: it encrypts, and computes without keys."""
        return Context(self.params, self._keys.public_only(), self._entropy)

    # ---------------------------------------------------------------- bytes

    def to_bytes(self, include_secret: bool = False) -> bytes:
        """The context with all keys that it holds, for `from_bytes`; seeded halves as seeds.

        Raises:
            SerializationError: it holds the secret key and `include_secret` is False.
        """
        return serialization.context_to_bytes(self.params, self._keys, include_secret)

    def save(self, path: PathLike, include_secret: bool = False) -> None:
        """Writes `to_bytes` to `path`, whole or not at all; with the secret only you may read it.

        Raises:
            SerializationError: it holds the secret key and `include_secret` is False.
            OperandError: not a path.
            OSError: the place cannot be written to.
        """
        parts = serialization.context_parts(self.params, self._keys, include_secret)
        write(path, parts, PRIVATE if self.rank == 2 else SHARED)

    @classmethod
    def from_bytes(cls, data: bytes, include_secret: bool = False) -> Context:
        """The context of `data`; of bytes with a secret key only where `include_secret` is True.

        Raises:
            SerializationError: truncated, altered or foreign bytes; keys of another `key_id`; a
                secret key while `include_secret` is False.
            ContextError: a live context with this `key_id` has a key of one name that differs.
        """
        params, keys, shared = serialization.read_context(data, include_secret)
        with active.admission(keys, "from_bytes") as keys:
            if shared is not None:
                ledger_of(keys.require_secret(), shared)
            return cls(params, keys)

    @classmethod
    def load(cls, path: PathLike, include_secret: bool = False) -> Context:
        """The context that `save` wrote.

        Raises:
            SerializationError, ContextError: as `from_bytes`.
            OperandError: not a path.
            OSError: no file, or one that cannot be read.
        """
        return cls.from_bytes(read(path), include_secret)

    def __reduce__(self) -> Any:
        return Context.from_bytes, (self.to_bytes(),)

    # ---------------------------------------------------------------- display

    def __repr__(self) -> str:
        mark = ", INSECURE" if self.params.is_insecure else ""
        keys = f"{self._keys.kind}, keys of {sizes(self._keys)}"
        return f"<ckks.Context {self.key_id[:8]}, {keys}{mark}>"

    def __str__(self) -> str:
        rows = [
            ("context", f"{self.key_id[:8]}, {self._keys.kind}"),
            ("keys", ", ".join(self._key_names()) or "none"),
            ("sizes", sizes(self._keys)),
        ]
        table = "\n".join(f"{name:<12} {value}" for name, value in rows)
        return f"{parameter_text(self.params, self.rank == 2)}\n{table}"

    def _repr_html_(self) -> str:
        names, p = self._key_names(), self.params
        more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        rows = (
            ("kind", self._keys.kind),
            ("holds", (", ".join(names[:_MOST_NAMES]) or "none") + more),
            ("sizes", sizes(self._keys)),
        )
        title = f"ckks.Context {self.key_id[:8]}"
        parts = parameter_parts(p, *rows, has_secret=self.rank == 2)
        marks = security_marks(p.security_bits)
        return html.card(title, *parts, **marks)

    def _key_names(self) -> list[str]:
        """Uses of the keys, never their contents."""
        return self._keys.names(self._name)

    # ---------------------------------------------------------------- activation

    def __enter__(self) -> Context:
        active.push(self)
        return self

    def __exit__(self, *exception: object) -> None:
        active.pop(self)


def _finite(values: Any, nan: float | None) -> Any:
    """The values, with `nan` in place of NaN; ParameterError where one is not finite."""
    if nan is not None:
        if not isinstance(nan, Complex) or not np.isfinite(complex(nan)):
            raise ParameterError(
                f"encrypt() got nan={nan!r:.20}.",
                "It is the number that NaN counts as, and is finite.",
                "Write nan=0, or leave entries out first: values[~np.isnan(values)].",
            )
        symbol = as_symbol(values)
        replaced = functools.partial(_replaced, nan)
        values = replaced(values) if symbol is None else symbol.map(replaced)
    if as_symbol(values) is not None:
        return values  # checked at each call, where it is encoded
    numbers = encoder.as_numbers(values)
    if numbers.dtype.kind not in "fc" or np.isfinite(numbers).all():
        return values
    place = tuple(np.argwhere(~np.isfinite(numbers))[0].tolist())
    raise ParameterError(
        f"encrypt() got {numbers[place]} at the index {place[0] if len(place) == 1 else place}.",
        "Only finite numbers can be encrypted: a NaN would be in no slot alone.",
        "Write ctx.encrypt(values, nan=0), which counts NaN as 0, or replace it, for example with "
        "numpy.nan_to_num."
        if np.isnan(numbers[place])
        else "Bring it to a range of yours, for example with numpy.clip(values, -100, 100).",
    )


def _replaced(nan: float, values: Any) -> NDArray:
    numbers = encoder.as_numbers(values)
    return np.where(np.isnan(numbers), nan, numbers) if numbers.dtype.kind in "fc" else numbers


def _is_truth(values: Any) -> bool:
    """Whether values are booleans, zeros and ones."""
    symbol = as_symbol(values)
    return (encoder.as_numbers(values) if symbol is None else symbol).dtype.kind == "b"


def _held(keys: Keychain) -> set[int | str | None]:
    """The keys that are there: galois elements, and None for relinearization."""
    return {*keys.galois, *([None] if keys.relinearization is not None else [])}


def _listed(parts: Iterable[Any]) -> str:
    """Parts of a sentence: a, b and c."""
    *first, last = map(str, parts)
    return " and ".join(filter(None, (", ".join(first), last)))


def _message(values: Any, level: int, params: Parameters) -> tuple[Poly | Integers, Layout, Any]:
    """Values as they are encrypted, their layout, and their slots.

    They become integers, for polynomials that are computed at once. In a function that is being
    captured, and for coefficients beyond 64 bits, they become a program.
    """

    def slots(z: Any) -> NDArray:
        return plaintext.as_slots(z, params.slots)[0]

    symbol = as_symbol(values)
    if is_capturing() or symbol is not None:
        p = plaintext.encode(values, params, level)
        return p.poly, p.layout, slots(values) if symbol is None else symbol.map(slots)
    encoded = plaintext.encoded(values, params, level)
    message = plaintext.integers_of(encoded.coefficients, params.ring(level), encoded.bits)
    return message, encoded.layout, encoded.values


_refuse_assignment = frozen(
    OF_CONTEXTS, "Make another one, ckks.context(depth=4); keep values of yours in names of yours."
)
_INSTEAD = {
    "n": "ctx.params.n", "depth": "ctx.params.depth", "scale": "ctx.params.scale(level)",
    "scale_bits": "ctx.params.scale_bits", "level": "ctx.params.depth, the top level",
    "secret": "ctx.to_bytes(include_secret=True), for your own backup",
    "secret_key": "ctx.to_bytes(include_secret=True), for your own backup",
    "public_key": "ctx.public()", "keys": "str(ctx), which lists them",
    "galois_keys": "ctx.rotation_keys(steps)", "relin_keys": "ctx.server()",
    "add": "x + y", "multiply": "x * y", "rotate": "x.rotate(k)",
}  # fmt: skip
Context.__new__ = made_by(2, "ckks.context(depth=4)")
Context.__getattr__ = no_attribute(_INSTEAD)  # type: ignore[attr-defined]
Context.__delattr__ = _refuse_assignment
check_methods(Context, "ckks.Context", INSTEAD, leave=Context.__internal__)


def _flatten(ctx: Context) -> tuple[tuple[Any, ...], Parameters]:
    return (ctx._keys,), ctx.params


def _unflatten(params: Parameters, children: Any) -> Context:
    """A context of leaves as they come, possibly tracers: it is not registered as alive."""
    ctx = object.__new__(Context)
    object.__setattr__(ctx, "params", params)
    (ctx._keys,) = children
    ctx._lock, ctx._entropy = threading.RLock(), fresh_seed
    return ctx


jax.tree_util.register_pytree_node(Context, _flatten, _unflatten)
