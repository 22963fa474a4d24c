"""`ckks.conv1d` and `ckks.conv2d`: kernels over encrypted signals and images, as sparse matrices.

An image [channels, height, width] lies in the slots in C order, all channels one after another. So
does the result, [outputs, height', width'], with no gaps, so that layer follows layer. Each offset
of a kernel is a diagonal. With 'same' padding and stride 1 there are kernel size x (inputs +
outputs - 1) of them. They stand in few rows of baby and giant steps. Other widths of the result
shear the image, and take more diagonals. With padding 'valid' there is up to one for each row, with
a stride up to one for each pixel.

References: Juvekar, Vaikuntanathan and Chandrakasan, "GAZELLE", 2018, 5 (packed convolutions);
Halevi and Shoup, 2014 and 2018, as in `diagonals`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ParameterError
from ren.poly.symbolic import Symbolic, derived
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.arithmetic.evolve import need_level
from ren.schemes.ckks.arithmetic.number_types import arithmetic, name_of
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.shapes import count_text, refuse_columns, reshape_text
from ren.schemes.ckks.circuits.linear import encoded, prepared
from ren.schemes.ckks.circuits.linear_map import LinearMap
from ren.schemes.ckks.circuits.matrix_checks import checked
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextT, known_length
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import RlweContext
from ren.schemes.slots.entries import Entries

Sizes = int | tuple[int, ...]


@circuit("conv1d()", arithmetic, 2)
def conv1d(
    ct: CiphertextT,
    kernel: ArrayLike,
    *,
    stride: int = 1,
    padding: str | int = "valid",
    shape: tuple[int, ...] | None = None,
    keys: int | None = None,
) -> CiphertextT:
    """The kernel over an encrypted signal: y[o, t] = sum_(c, i) kernel[o, c, i] x[c, t stride + i].

    The kernel is not flipped, as in machine learning: numpy.correlate for one channel, and
    numpy.convolve with kernel[::-1].

    Args:
        ct: a signal of any length; leading axes are batch axes. Several channels, [channels,
            length] in C order, where it has that shape by `ct.reshape` or `shape`.
        kernel: real or complex: [size] for one channel, or [outputs, channels, size].
        stride: every how many places there is a result.
        padding: "valid": none. "same": zeros on both ends, for ceil(length / stride) results, one
            more behind where they are odd. Or how many zeros on either end.
        shape: (channels, length), where `ct` is a vector of these.
        keys: the most rotation keys that it may need, as for `ckks.linear`.

    Returns:
        One level lower; it decrypts to [length'] for a kernel of one axis, else to [outputs,
        length']. Rotations: `ckks.convolution(...).rotations`, or `ren.plan`.

    Raises:
        ParameterError: shapes that do not fit, or too few keys.
        DepthError: no level is left.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> ckks.conv1d(ctx.encrypt([1.0, 2.0, 4.0, 8.0]), [-1, 1]).decrypt().round(3)
        array([1., 2., 4.])
    """
    return _convolved(ct, kernel, 1, shape, stride, padding, keys)


@circuit("conv2d()", arithmetic, 2)
def conv2d(
    ct: CiphertextT,
    kernels: ArrayLike,
    *,
    stride: Sizes = 1,
    padding: str | Sizes = "valid",
    image_shape: tuple[int, ...] | None = None,
    keys: int | None = None,
) -> CiphertextT:
    """The kernels over an encrypted image, summed over its channels.

    y[o, i, j] = sum_(c, a, b) kernels[o, c, a, b] x[c, i stride + a, j stride + b]; kernels are not
    flipped, as in machine learning: scipy.signal.correlate2d for one channel.

    Args:
        ct: an image, [height, width] or [channels, height, width] in C order, in one ciphertext or
            in blocks. Leading axes are batch axes. It has its shape from `ctx.encrypt(image)`, by
            `ct.reshape`, from a convolution before, or by `image_shape`.
        kernels: real or complex: [a, b] for one channel, or [outputs, channels, a, b].
        stride: every how many places there is a result, of both axes or of each.
        padding: as for `conv1d`; a number for both axes or one for each.
        image_shape: of the image, where `ct` is a vector.
        keys: the most rotation keys that it may need, as for `ckks.linear`.

    Returns:
        One level lower. It decrypts to [height', width'] for a kernel of two axes, else to
        [outputs, height', width']. It is packed so, in C order. Stride 1 with "same" padding takes
        the fewest rotations.

    Raises:
        ParameterError: shapes that do not fit, or too few keys.
        DepthError: no level is left.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> image = ctx.encrypt(np.arange(12.0).reshape(3, 4))
        >>> ckks.conv2d(image, [[-1, 1]]).decrypt().round(3)
        array([[1., 1., 1.],
               [1., 1., 1.],
               [1., 1., 1.]])
    """
    return _convolved(ct, kernels, 2, image_shape, stride, padding, keys)


def convolution(
    kernels: ArrayLike,
    shape: tuple[int, ...],
    context: RlweContext[Parameters] | None = None,
    *,
    stride: Sizes = 1,
    padding: str | Sizes = "valid",
    level: int | None = None,
    keys: int | None = None,
    inputs: ArrayLike | None = None,
    outputs: ArrayLike | None = None,
    memory: int | None = None,
    paired: bool = False,
) -> LinearMap:
    """Kernels encoded once, for many products `map @ ct`: what `conv1d` and `conv2d` compute.

    Args:
        kernels: as for `conv1d`, 1 or 3 axes, or for `conv2d`, 2 or 4.
        shape: of the images: (length), (channels, length), (height, width) or (channels, height,
            width).
        context, level, keys, memory, paired: as for `ckks.linear`.
        inputs, outputs: the slot of each number of the image and of the result, both in C order, as
            for `ckks.linear`. With `outputs` the result is a vector of slots, with no shape.
        stride, padding: as for `conv2d`.

    Returns:
        The map, whose `.rotations` are the steps that a server needs keys for.

    Raises:
        ParameterError: shapes that do not fit, or as of `ckks.linear`.
    """
    sizes = _sizes(shape)
    matrix, label = matrix_of(_kernels(kernels, (1, 2, 3, 4)), sizes, stride, padding)
    call = "ckks.convolution(kernels, shape, ctx)"
    where = (inputs, outputs)
    return prepared(
        matrix, context, call, level, keys, label, where=where, memory=memory, is_paired=paired,
        number_type=name_of(kernels),
    )  # fmt: skip


def _convolved(
    ct: CiphertextT,
    kernels: Any,
    axes: int,
    shape: tuple[int, ...] | None,
    stride: Sizes,
    padding: str | Sizes,
    keys: int | None,
) -> CiphertextT:
    what = f"conv{axes}d()"
    check_ciphertext(ct, what)
    refuse_columns(ct, what)
    need_level(ct, 1, what)
    kernels = _kernels(kernels, (axes, axes + 2))
    length = known_length(ct)
    shape = ct.layout.shape if shape is None else _sizes(shape)
    if shape is None and axes == 1 and kernels.ndim == 1 and length is not None:
        shape = (length,)
    if shape is None or length != math.prod(shape):
        sizes = f"channels, {'length' if axes == 1 else 'height, width'}"
        raise ParameterError(
            f"{what} got {count_text(length)} "
            + ("without a shape." if shape is None else f"for an image of shape {shape}."),
            "The image has one number for each pixel of each channel, in C order.",
            f"Say its shape: {reshape_text(ct, sizes)}.",
        )
    matrix, label = matrix_of(kernels, shape, stride, padding)
    return encoded(matrix, ct.params, ct.level, keys, label) @ ct


def _sizes(shape: Any) -> tuple[int, ...]:
    """The shape of an image, as ints."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        sizes = ()
    if not sizes:
        raise ParameterError(
            f"An image of shape {shape!r:.40} was given.",
            "A shape is the size of each axis: (length,), (height, width) or (channels, height, "
            "width).",
            "Write for example (28, 28).",
        )
    return sizes


def _kernels(kernels: Any, axes: tuple[int, ...]) -> NDArray | Symbolic:
    return checked(kernels, axes, "a convolution's kernels")


def matrix_of(
    kernels: NDArray | Symbolic, shape: tuple[int, ...], stride: Sizes, padding: str | Sizes
) -> tuple[Entries, tuple[int, ...] | None]:
    """The convolution as a matrix on flat images, and the shape of its results."""
    single = kernels.ndim <= 2
    outputs, channels = (1, 1) if single else kernels.shape[:2]
    spatial = kernels.shape if single else kernels.shape[2:]
    image = (*(1,) * (len(spatial) + 1 - len(shape)), *shape)
    if len(image) != len(spatial) + 1 or image[0] != channels or min(shape) < 1:
        raise ParameterError(
            f"Kernels of shape {kernels.shape} were laid over an image of shape {shape}.",
            f"Kernels [outputs, channels, ...] with {len(spatial)} axes after these take images "
            f"[{channels}, ...] with as many.",
            "Give the image as many channels as the kernels have, or reshape them.",
        )
    strides = _each(stride, len(spatial), 1, "stride")
    is_named = padding in ("valid", "same")
    paddings = (padding,) * len(spatial) if is_named else _each(padding, len(spatial), 0, "padding")
    reads = list(map(_read, image[1:], spatial, strides, paddings))
    made = tuple(map(len, reads))
    label = made if single else (outputs, *made)
    whole = (outputs, channels, *spatial)
    kernels = derived(lambda values: values.reshape(whole), kernels)
    return _entries(kernels, image[1:], reads), label if len(label) > 1 else None


def _read(size: int, kernel: int, stride: int, padding: str | int) -> NDArray[np.intp]:
    """The place of the image that each place of the result reads through each offset, or -1."""
    if padding == "same":
        length = -(-size // stride)
        before = max((length - 1) * stride + kernel - size, 0) // 2
    else:
        before = 0 if isinstance(padding, str) else padding
        length = (size + 2 * before - kernel) // stride + 1
    if length < 1:
        raise ParameterError(
            f"A kernel of size {kernel} was laid over {size} places with padding {padding}.",
            "It fits inside the image and its padding at least once.",
            "Use padding='same', or a smaller kernel.",
        )
    places = np.arange(length)[:, None] * stride + np.arange(kernel) - before
    return np.where(places < size, np.maximum(places, -1), -1)


def _each(value: Any, count: int, least: int, name: str) -> tuple[int, ...]:
    """One integer for each axis."""
    values = value if isinstance(value, tuple | list) else (value,) * count
    try:
        integers = tuple(operator.index(v) for v in values)
    except TypeError:
        integers = ()
    if len(integers) != count or any(v < least for v in integers):
        raise ParameterError(
            f"A convolution got {name}={value!r}.",
            f"It is an integer from {least} on, or one for each of {count} axes"
            f"{', or valid or same' if name == 'padding' else ''}.",
            f"Leave it out for {name}={'valid' if name == 'padding' else 1}.",
        )
    return integers


def _entries(
    kernels: NDArray | Symbolic, sizes: Sequence[int], reads: Sequence[NDArray[np.intp]]
) -> Entries:
    """kernels[o, c, a, ...] at row (o, i, ...) and column (c, reads[0][i, a], ...).

    Those that are zero are left out, if the numbers are known.
    """
    lengths, rank = tuple(map(len, reads)), len(kernels.shape)
    index = np.indices((*kernels.shape, *lengths), sparse=True)
    taps = rows, columns, *offsets = index[:rank]
    sources = np.ravel_multi_index(taps, kernels.shape)
    held = kernels[taps] != 0 if isinstance(kernels, np.ndarray) else sources >= 0
    for size, read, offset, place in zip(sizes, reads, offsets, index[rank:], strict=True):
        at = read[place, offset]
        rows, columns, held = rows * len(read) + place, columns * size + at, held & (at >= 0)
    whole = np.broadcast_arrays(rows, columns, sources)
    rows, columns, sources = (x[held] for x in whole)
    values = derived(partial(np.take, indices=sources), kernels)
    shape = kernels.shape[0] * math.prod(lengths), kernels.shape[1] * math.prod(sizes)
    return Entries(values, shape, (rows, columns))
