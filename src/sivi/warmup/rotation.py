"""The rotation along the axes of the unknowns' arrays in which the curvature of a target is nearest to diagonal.

Let P = E_q[−∇² log p], for an array seen as a matrix (see `sivi._rotation`) with entries P_(ik)(jl), i and j rows, k
and l columns. Its traces over one of both,

    A_ij = Σ_k P_(ik)(jk),    B_kl = Σ_i P_(ik)(il),

are, for a Kronecker product P = F ⊗ G + τ I, the matrices tr(G) F + … I and tr(F) G + … I: their eigenvectors are those
of the factors. In the basis of these eigenvectors such a P is diagonal, the part τ I of a prior included, and any
other P is closer to it.

A target that has its `curvature_blocks` in closed form goes further: with R the eigenvectors of A, the block
Σ_jh R_ji R_hi P_(jk)(hl) of every mixed row i has eigenvectors of its own.

Otherwise the traces are measured by products Y = P ξ with ξ = s e_lᵀ, one column at a time, with random signs s over
the rows:

    E[Yᵀ s] = B e_l,    E[Σ_l w_l Y e_l sᵀ] = A for weights w = 1,    E[s_i Y_il] = P_(il)(il).

The columns are those of the axes known so far, and the axes are looked for several times. So the noise in an entry of B
is in proportion to the curvature along both of its directions; with arbitrary vectors ξ the noise of a direction that
is well known would swamp those that are not.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._affine import DiagonalMap
from .._backend import matmul_highest
from .._rotation import AxisRotation, AxisView
from ..targets import Target
from .draws import Rows, exact_scores_at

#: An axis longer than this is not turned: its matrix would cost more than all else.
MAX_AXIS = 1024

#: Nor does every row get axes of its own where their matrices had more numbers than this.
MAX_BLOCKS = 2**25

#: Products per call of the target, each at a draw of q of its own; how many in all, and how often every column is
#: looked at, at least.
WIDTH, NUM_PRODUCTS, NUM_SWEEPS = 16, 2048, 2

#: Length of the difference that gives P ξ, in standard deviations of q.
STEP = 0.25

#: Bounds on the curvature along an axis, relative to the mean.
SMALLEST, LARGEST = 1e-4, 1e8


def is_turned(size: int) -> bool:
    """Whether an axis of this length is turned."""
    return 1 < size <= MAX_AXIS


def no_rotation(shapes: tuple[tuple[int, ...], ...]) -> AxisRotation | None:
    """The identity, for arrays of these shapes; None if there is nothing to turn."""
    views, factors, start = [], [], 0
    for shape in shapes:
        sizes = [n if is_turned(n) else 0 for n in shape] or [0]
        view = AxisView(start, shape, max(range(len(sizes)), key=sizes.__getitem__))
        views.append(view)
        factors.append(tuple(jnp.eye(n) if is_turned(n) else None for n in (view.rows, view.cols)))
        start += view.size
    turned = any(f is not None for pair in factors for f in pair)
    return AxisRotation(tuple(views), tuple(factors)) if turned else None


def units(scale: Float[Array, " dim"], rotation: AxisRotation) -> Float[Array, " dim"]:
    """c: one number for an array whose rows and columns are mixed, so that their structure stays; else its own s."""
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
    rows: Rows,
) -> tuple[Float[Array, " dim"], AxisRotation]:
    """Standard deviations along the axes of x = m + c ⊙ Q v, and better axes.

    Args:
        key: Random key.
        target: The target; only its score is used.
        around: q, whose draws the curvature is averaged over.
        scale: c.
        rotation: Q.
        rows: Which data each call sees.
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
        plus, minus = exact_scores_at(target, jnp.stack([x + length * shift, x - length * shift]), rows.at(k))
        image = jax.vmap(rotation.undo)((minus - plus) * scale / (2.0 * length))
        image = jnp.where(jnp.all(jnp.isfinite(image), axis=1, keepdims=True), image, xi)
        seen = [view.sums(probes, num_calls * WIDTH, xi, image) for view in views]
        columns = [view.columns(probes, xi, image) for view in views]
        return jax.tree.map(jnp.add, total, seen), columns

    shapes = jax.eval_shape(
        lambda: [view.sums(jnp.arange(WIDTH), WIDTH, *jnp.zeros((2, WIDTH, dim), dtype)) for view in views]
    )
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    found, columns = jax.lax.scan(call, nothing, jnp.arange(num_calls))
    # At least the mean over the rows, which has less noise. From a scale too narrow the steps that follow find out
    # soon; one that is too wide throws the mean away first.
    diagonals = [jnp.maximum(own.diagonal, jnp.mean(own.diagonal, axis=0)) for own in found]
    curvature = jnp.concatenate([view.view.vector(own) for view, own in zip(views, diagonals, strict=True)])
    mean = jnp.mean(jnp.abs(curvature))
    traces = [view.over_columns(own, pairs) for view, own, pairs in zip(views, found, columns, strict=True)]
    better = [(rows, own.over_rows) for rows, own in zip(traces, found, strict=True)]
    return jnp.clip(curvature, SMALLEST * mean, LARGEST * mean) ** -0.5, _turned(rotation, better)


def knows_axes(target: Target, rotation: AxisRotation) -> bool:
    """Whether the target has a closed form for what `known_axes` asks of it, and it is not too much."""
    point = jnp.zeros((1, target.dim))
    return all(
        view.cols <= MAX_AXIS
        and view.rows * view.cols**2 <= MAX_BLOCKS
        and jax.eval_shape(lambda view=view, i=i: target.curvature_blocks(point, i, view.axis, None)) is not None
        for i, view in enumerate(rotation.views)
    )


def own_axes(rotation: AxisRotation) -> AxisRotation:
    """The identity, in the form that `known_axes` returns."""
    factors = [
        (
            jnp.eye(view.rows) if _rows_are_an_axis(view) else None,
            jnp.broadcast_to(jnp.eye(view.cols), (view.rows, view.cols, view.cols)),
        )
        for view in rotation.views
    ]
    return AxisRotation(rotation.views, tuple(factors))


def known_axes(
    target: Target, points: Float[Array, "draws dim"], scale: Float[Array, " dim"], rotation: AxisRotation
) -> tuple[Float[Array, " dim"], AxisRotation]:
    """Standard deviations along the axes of x = m + c ⊙ Q v, and the axes Q themselves, from the target's closed form.

    The rows are mixed by the eigenvectors of their trace A; then every mixed row has the eigenvectors of its own block
    for axes. What the curvature has beyond that lies between the mixed rows.

    Args:
        target: The target, with `curvature_blocks`.
        points: Draws that the curvature is averaged over.
        scale: c.
        rotation: How the arrays are seen as matrices.
    """
    factors, sds = [], []
    for i, view in enumerate(rotation.views):
        unit, left = view.matrix(scale), None
        if _rows_are_an_axis(view):
            trace = target.curvature_trace(points, i, 1 - view.axis)
            left = _eigh(_checked(target, trace, (view.rows, view.rows)))[1]
        blocks = target.curvature_blocks(points, i, view.axis, left)
        blocks = _checked(target, blocks, (view.rows, view.cols, view.cols))
        curvature, right = _eigh(blocks * unit[:, :, None] * unit[:, None, :])
        mean = jnp.mean(curvature)
        sds.append(view.vector(jnp.clip(curvature, SMALLEST * mean, LARGEST * mean) ** -0.5))
        factors.append((left, right))
    return jnp.concatenate(sds), AxisRotation(rotation.views, tuple(factors))


def _checked(target: Target, blocks: Array | None, shape: tuple[int, ...]) -> Array:
    """Blocks of the curvature, or their sum, if they have this shape."""
    if blocks is None or blocks.shape != shape:
        found = "None" if blocks is None else blocks.shape
        raise ValueError(
            f"{type(target).__name__}.curvature_blocks must return (rows, columns, columns) for every array and axis "
            f"that is asked for, or always None; where {shape} was to come of it, it gave {found}."
        )
    return blocks


def _rows_are_an_axis(view: AxisView) -> bool:
    """Whether the rows are one axis, and are turned."""
    return len(view.shape) == 2 and is_turned(view.rows)


def _eigh(matrix: Float[Array, "*rows n n"]) -> tuple[Float[Array, "*rows n"], Float[Array, "*rows n n"]]:
    values, vectors = jnp.linalg.eigh(0.5 * (matrix + jnp.swapaxes(matrix, -1, -2)))
    return values, vectors


def _turned(rotation: AxisRotation, traces: Sequence[tuple[Array | None, Array]]) -> AxisRotation:
    """Turned on to the eigenvectors of the traces that are given along its axes."""
    factors = [
        tuple(
            f if f is None or trace is None else matmul_highest(f, _eigh(trace)[1])
            for f, trace in zip(pair, own, strict=True)
        )
        for pair, own in zip(rotation.factors, traces, strict=True)
    ]
    return AxisRotation(rotation.views, tuple(factors))


class _Sums(NamedTuple):
    """For one array: the diagonal of P as a matrix, and B, empty if nothing is turned."""

    diagonal: Float[Array, "rows cols"]
    over_rows: Float[Array, "_ _"]


class _Columns(NamedTuple):
    """One array, and whether its columns are looked at one by one: else all at once, for the diagonal alone."""

    view: AxisView
    one_by_one: bool

    @property
    def period(self) -> int:
        """After so many products all has been looked at."""
        return self.view.cols if self.one_by_one else 1

    def mask(self, probes: Int[Array, " width"]) -> Bool[Array, "width size"]:
        """The entries of the array that each product is about."""
        if not self.one_by_one:
            return jnp.ones((len(probes), self.view.size), bool)
        column = jnp.arange(self.view.cols) == (probes % self.view.cols)[:, None]
        return self.view.vector(jnp.broadcast_to(column[:, None], (len(probes), self.view.rows, self.view.cols)))

    def sums(
        self, probes: Int[Array, " width"], num: int, xi: Float[Array, "width dim"], image: Float[Array, "width dim"]
    ) -> _Sums:
        """What these of `num` products add to the means."""
        x, y = self.view.matrix(xi), self.view.matrix(image)
        if not self.one_by_one:
            return _Sums(jnp.sum(x * y, axis=0) / num, jnp.zeros((0, 0), x.dtype))
        x = x / (num // self.view.cols + (jnp.arange(self.view.cols) < num % self.view.cols))
        by_columns = jnp.einsum("nr,nrk->nk", jnp.sum(x, axis=2), y)
        return _Sums(jnp.sum(x * y, axis=0), matmul_highest(by_columns.T, jnp.any(x != 0, axis=1).astype(x.dtype)))

    def columns(
        self, probes: Int[Array, " width"], xi: Float[Array, "width dim"], image: Float[Array, "width dim"]
    ) -> Float[Array, "3 width rows"]:
        """The signs s and the column l of Y that each product has, and l itself; empty if rows are not turned."""
        if not self.one_by_one or not is_turned(self.view.rows):
            return jnp.zeros((3, len(probes), 0), xi.dtype)
        column = probes % self.view.cols
        place = column[:, None, None]
        x, y = (jnp.take_along_axis(self.view.matrix(v), place, axis=2)[:, :, 0] for v in (xi, image))
        return jnp.stack([x, y, jnp.broadcast_to(column[:, None], x.shape).astype(x.dtype)])

    def over_columns(self, sums: _Sums, columns: Float[Array, "calls 3 width rows"]) -> Float[Array, "_ _"] | None:
        """A, with every column weighed by one over its trace.

        The weights leave the eigenvectors of a Kronecker product as they are, and let all columns say something: else
        the few of largest curvature would, with the noise of few.
        """
        if columns.shape[-1] == 0:
            return None
        signs, images, column = jnp.moveaxis(columns, 1, 0).reshape(3, -1, self.view.rows)
        sizes = jnp.abs(jnp.mean(sums.diagonal, axis=0))  # of a density that is not log-concave, they can be negative
        weights = 1.0 / jnp.maximum(sizes, SMALLEST * jnp.mean(sizes) + jnp.finfo(signs.dtype).tiny)
        return matmul_highest((images * weights[column[:, 0].astype(int)][:, None]).T, signs)
