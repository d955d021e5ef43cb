"""The rotation along the axes of the unknowns' arrays in which the curvature of a target is nearest to diagonal.

Let P = E_q[−∇² log p]. See an array as a matrix (`sivi.coordinates.rotation`), so that P has entries P_(ik)(jl) with
rows i and j, columns k and l. Its traces over the columns and over the rows are

    A_ij = Σ_k P_(ik)(jk),    B_kl = Σ_i P_(ik)(il).

For a Kronecker product P = F ⊗ G + τ I they are tr(G) F + … I and tr(F) G + … I: their eigenvectors are those of the
factors. In the basis of these eigenvectors such a P is diagonal, including the part τ I of a prior, and any other P is
closer to diagonal.

A target that is `sivi.targets.KnowsCurvature` allows more. With R the eigenvectors of A, each rotated row i has its own
block Σ_jh R_ji R_hi P_(jk)(hl), and the eigenvectors of that block become the axes of the row.

For other targets the traces are measured by products Y = P ξ with ξ = s e_lᵀ: one column l at a time, with random signs
s over the rows,

    E[Yᵀ s] = B e_l,    E[Σ_l w_l Y e_l sᵀ] = A for weights w = 1,    E[s_i Y_il] = P_(il)(il).

The columns are those of the current axes, and the axes are measured several times. The noise in an entry of B is then
proportional to the curvature along both of its directions. With arbitrary vectors ξ, the noise of directions with large
curvature would hide those with small curvature.

Diagonal scales along new axes start too narrow rather than too wide: at least the mean curvature over the rows of a
column, and no scale above the widest of the mean-field fit. From a narrow scale the steps recover soon. Under a wide
one, draws lie where the score says little, and their average first moves the mean far off.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._arguments import describe
from .._backend import matmul_highest
from .._batches import BatchWindows
from ..coordinates import DiagonalMap
from ..coordinates.rotation import ArrayAsMatrix, AxisRotation
from ..targets import KnowsCurvature, Target
from ..targets.evaluate import exact_scores_at

#: An axis longer than this is not rotated: its matrix would cost more than all else.
MAX_AXIS = 1024

#: Rows get separate axes only if their matrices together have at most this many numbers.
MAX_BLOCKS = 2**25

#: Products per call of the target, each at another draw of q; products in all, at least; sweeps over all columns, at
#: least.
WIDTH, NUM_PRODUCTS, NUM_SWEEPS = 16, 2048, 2

#: Length of the difference that gives P ξ, in standard deviations of q.
STEP = 0.25

#: Bounds on the curvature along an axis, relative to the mean.
SMALLEST, LARGEST = 1e-4, 1e8


def array_shapes(target: Target) -> tuple[tuple[int, ...], ...]:
    """The shapes of the arrays that x is made of, one after the other: those of the named variables.

    A variable with a constraint counts as the vector of its free numbers.
    """
    if isinstance(target, KnowsCurvature):
        return target.shapes
    return tuple(v.shape if v.constraint is None else (v.size,) for v in target.layout.variables)


def is_rotated(size: int) -> bool:
    """Whether an axis of this length is rotated."""
    return 1 < size <= MAX_AXIS


def identity_rotation(shapes: tuple[tuple[int, ...], ...]) -> AxisRotation | None:
    """The identity, for arrays of these shapes; None if no axis is rotated."""
    views, factors, start = [], [], 0
    for shape in shapes:
        sizes = [n if is_rotated(n) else 0 for n in shape] or [0]
        view = ArrayAsMatrix(start, shape, max(range(len(sizes)), key=sizes.__getitem__))
        views.append(view)
        factors.append(tuple(jnp.eye(n) if is_rotated(n) else None for n in (view.rows, view.cols)))
        start += view.size
    has_rotation = any(f is not None for pair in factors for f in pair)
    return AxisRotation(tuple(views), tuple(factors)) if has_rotation else None


def unit_scales(scale: Float[Array, " dim"], rotation: AxisRotation) -> Float[Array, " dim"]:
    """The scale c before the rotation: the geometric mean of s for an array that is rotated, s itself for others.

    One number for all entries of an array keeps its curvature a Kronecker product.
    """
    parts = []
    for view, (left, right) in zip(rotation.views, rotation.factors, strict=True):
        part = scale[view.start : view.start + view.size]
        mixed = (left is not None or right is not None) and view.rows > 1 and view.cols > 1
        parts.append(jnp.full_like(part, jnp.exp(jnp.mean(jnp.log(part)))) if mixed else part)
    return jnp.concatenate(parts)


def measure(
    key: PRNGKeyArray,
    target: Target,
    around: DiagonalMap,
    scale: Float[Array, " dim"],
    rotation: AxisRotation,
    windows: BatchWindows | None,
) -> tuple[Float[Array, " dim"], AxisRotation]:
    """Measure standard deviations along the axes of x = m + c ⊙ Q v, and better axes.

    Args:
        key: Random key.
        target: The target; only its score is used.
        around: q; the curvature is averaged over its draws.
        scale: c.
        rotation: Q.
        windows: The rows of data of each call; None for all rows.
    """
    dim, dtype = around.dim, around.mean.dtype
    views = [
        _Columns(view, right is not None) for view, (_, right) in zip(rotation.views, rotation.factors, strict=True)
    ]
    num_calls = -(-max(NUM_PRODUCTS, NUM_SWEEPS * max(view.period for view in views)) // WIDTH)

    def call(total: list[_Sums], k: Array) -> tuple[list[_Sums], list[Array]]:
        draw_key, sign_key = jax.random.split(jax.random.fold_in(key, k))
        half = jax.random.normal(draw_key, (WIDTH // 2, dim), dtype)
        x = around.mean + around.scale * jnp.concatenate([half, -half])
        probes = k * WIDTH + jnp.arange(WIDTH)
        masks = jnp.concatenate([view.mask(probes) for view in views], axis=1)
        xi = jnp.where(masks, jax.random.rademacher(sign_key, (WIDTH, dim), dtype), 0.0)
        shift = scale * jax.vmap(rotation.apply)(xi)
        length = STEP / jnp.linalg.norm(shift / around.scale, axis=1, keepdims=True)
        rows = None if windows is None else windows.at(k)
        plus, minus = exact_scores_at(target, jnp.stack([x + length * shift, x - length * shift]), rows)
        image = jax.vmap(rotation.undo)((minus - plus) * scale / (2.0 * length))
        image = jnp.where(jnp.all(jnp.isfinite(image), axis=1, keepdims=True), image, xi)
        sums = [view.sums(probes, num_calls * WIDTH, xi, image) for view in views]
        columns = [view.columns(probes, xi, image) for view in views]
        return jax.tree.map(jnp.add, total, sums), columns

    shapes = jax.eval_shape(
        lambda: [view.sums(jnp.arange(WIDTH), WIDTH, *jnp.zeros((2, WIDTH, dim), dtype)) for view in views]
    )
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    totals, columns = jax.lax.scan(call, empty, jnp.arange(num_calls))
    # At least the mean over the rows, which has less noise. The steps that follow soon correct a scale that is too
    # narrow; a scale that is too wide first moves the mean far off.
    diagonals = [jnp.maximum(total.diagonal, jnp.mean(total.diagonal, axis=0)) for total in totals]
    curvature = jnp.concatenate([view.view.vector(diagonal) for view, diagonal in zip(views, diagonals, strict=True)])
    mean = jnp.mean(jnp.abs(curvature))
    over_columns = [view.over_columns(total, pairs) for view, total, pairs in zip(views, totals, columns, strict=True)]
    traces = [(trace, total.over_rows) for trace, total in zip(over_columns, totals, strict=True)]
    return jnp.clip(curvature, SMALLEST * mean, LARGEST * mean) ** -0.5, _rotated(rotation, traces)


def has_closed_form(target: Target, rotation: AxisRotation) -> TypeGuard[KnowsCurvature]:
    """Whether `closed_form_axes` can be used: the target knows its curvature, and the blocks are not too large."""
    return isinstance(target, KnowsCurvature) and all(
        view.cols <= MAX_AXIS and view.rows * view.cols**2 <= MAX_BLOCKS for view in rotation.views
    )


def per_row_identity(rotation: AxisRotation) -> AxisRotation:
    """The identity with a matrix for every row, the form that `closed_form_axes` returns."""
    factors = [
        (
            jnp.eye(view.rows) if _rows_are_an_axis(view) else None,
            jnp.broadcast_to(jnp.eye(view.cols), (view.rows, view.cols, view.cols)),
        )
        for view in rotation.views
    ]
    return AxisRotation(rotation.views, tuple(factors))


def closed_form_axes(
    target: KnowsCurvature, points: Float[Array, "draws dim"], scale: Float[Array, " dim"], rotation: AxisRotation
) -> tuple[Float[Array, " dim"], AxisRotation]:
    """Standard deviations along the axes of x = m + c ⊙ Q v, and the axes Q, from the target's closed form.

    The eigenvectors of the trace A rotate the rows. Then the eigenvectors of its own block become the axes of each
    rotated row. Only the coupling between rotated rows is ignored.

    Args:
        target: The target.
        points: Draws over which the curvature is averaged.
        scale: c.
        rotation: How the arrays are seen as matrices.
    """
    factors, sds = [], []
    for i, view in enumerate(rotation.views):
        row_scales, left = view.matrix(scale), None
        if _rows_are_an_axis(view):
            trace = target.curvature_trace(points, i, 1 - view.axis)
            left = _eigh(_checked(target, trace, (view.rows, view.rows)))[1]
        blocks = target.curvature_blocks(points, i, view.axis, left)
        blocks = _checked(target, blocks, (view.rows, view.cols, view.cols))
        curvature, right = _eigh(blocks * row_scales[:, :, None] * row_scales[:, None, :])
        mean = jnp.mean(curvature)
        sds.append(view.vector(jnp.clip(curvature, SMALLEST * mean, LARGEST * mean) ** -0.5))
        factors.append((left, right))
    return jnp.concatenate(sds), AxisRotation(rotation.views, tuple(factors))


def _checked(target: Target, blocks: Array | None, shape: tuple[int, ...]) -> Array:
    """Blocks of the curvature, or their sum, if they have this shape."""
    if blocks is None or blocks.shape != shape:
        raise ValueError(
            f"{type(target).__name__}: curvature_blocks must return (rows, columns, columns) for every array and axis, "
            f"and curvature_trace (columns, columns); where shape {shape} is asked for, got {describe(blocks)}."
        )
    return blocks


def _rows_are_an_axis(view: ArrayAsMatrix) -> bool:
    """Whether the rows are one axis, and are rotated."""
    return len(view.shape) == 2 and is_rotated(view.rows)


def _eigh(matrix: Float[Array, "*rows n n"]) -> tuple[Float[Array, "*rows n"], Float[Array, "*rows n n"]]:
    values, vectors = jnp.linalg.eigh(0.5 * (matrix + jnp.swapaxes(matrix, -1, -2)))
    return values, vectors


def _rotated(rotation: AxisRotation, traces: Sequence[tuple[Array | None, Array]]) -> AxisRotation:
    """The rotation followed by one to the eigenvectors of the traces, measured along its axes."""
    factors = [
        tuple(
            factor if factor is None or trace is None else matmul_highest(factor, _eigh(trace)[1])
            for factor, trace in zip(factors_of_array, traces_of_array, strict=True)
        )
        for factors_of_array, traces_of_array in zip(rotation.factors, traces, strict=True)
    ]
    return AxisRotation(rotation.views, tuple(factors))


class _Sums(NamedTuple):
    """Sums for one array: the diagonal of P as a matrix, and B, which is empty if the columns are not rotated."""

    diagonal: Float[Array, "rows cols"]
    over_rows: Float[Array, "_ _"]


class _Columns(NamedTuple):
    """One array, and whether its columns are probed one by one, or all at once for the diagonal alone."""

    view: ArrayAsMatrix
    one_by_one: bool

    @property
    def period(self) -> int:
        """Products in one sweep over all columns."""
        return self.view.cols if self.one_by_one else 1

    def mask(self, probes: Int[Array, " width"]) -> Bool[Array, "width size"]:
        """The entries of the array that each product probes."""
        if not self.one_by_one:
            return jnp.ones((len(probes), self.view.size), bool)
        column = jnp.arange(self.view.cols) == (probes % self.view.cols)[:, None]
        return self.view.vector(jnp.broadcast_to(column[:, None], (len(probes), self.view.rows, self.view.cols)))

    def sums(
        self, probes: Int[Array, " width"], num: int, xi: Float[Array, "width dim"], image: Float[Array, "width dim"]
    ) -> _Sums:
        """What these products, out of `num`, add to the means."""
        x, y = self.view.matrix(xi), self.view.matrix(image)
        if not self.one_by_one:
            return _Sums(jnp.sum(x * y, axis=0) / num, jnp.zeros((0, 0), x.dtype))
        x = x / (num // self.view.cols + (jnp.arange(self.view.cols) < num % self.view.cols))
        by_columns = jnp.einsum("nr,nrk->nk", jnp.sum(x, axis=2), y)
        return _Sums(jnp.sum(x * y, axis=0), matmul_highest(by_columns.T, jnp.any(x != 0, axis=1).astype(x.dtype)))

    def columns(
        self, probes: Int[Array, " width"], xi: Float[Array, "width dim"], image: Float[Array, "width dim"]
    ) -> Float[Array, "3 width rows"]:
        """The signs s, the column l of Y and l itself, of each product; empty if the rows are not rotated."""
        if not self.one_by_one or not is_rotated(self.view.rows):
            return jnp.zeros((3, len(probes), 0), xi.dtype)
        column = probes % self.view.cols
        place = column[:, None, None]
        x, y = (jnp.take_along_axis(self.view.matrix(v), place, axis=2)[:, :, 0] for v in (xi, image))
        return jnp.stack([x, y, jnp.broadcast_to(column[:, None], x.shape).astype(x.dtype)])

    def over_columns(self, sums: _Sums, columns: Float[Array, "calls 3 width rows"]) -> Float[Array, "_ _"] | None:
        """A, with every column weighted by one over its trace.

        The weights do not change the eigenvectors of a Kronecker product. Without them the few columns of largest
        curvature would dominate, with the noise of few.
        """
        if columns.shape[-1] == 0:
            return None
        signs, images, column = jnp.moveaxis(columns, 1, 0).reshape(3, -1, self.view.rows)
        sizes = jnp.abs(jnp.mean(sums.diagonal, axis=0))  # can be negative, if p is not log-concave
        weights = 1.0 / jnp.maximum(sizes, SMALLEST * jnp.mean(sizes) + jnp.finfo(signs.dtype).tiny)
        return matmul_highest((images * weights[column[:, 0].astype(int)][:, None]).T, signs)
