"""The methods of the table of networks: what each does with all splits of a set, and the rows that come of it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from .._programs import compiled
from ..families import SemiImplicit
from ..objectives import Objective
from ._bnn_chains import (
    NUM_PARTICLES,
    NUM_TRIAL_PARTICLES,
    STEP_SIZES,
    Descent,
    Hamiltonian,
    Langevin,
    LangevinMember,
)
from ._bnn_data import Parts, Rows, parts_of
from ._bnn_precisions import made, precisions_of
from ._bnn_scores import scores_of
from ._bnn_semi_implicit import BATCH_SIZE, FAMILY, SemiImplicitFit, draws_of, sivi, sivi_sm, uivi, z_share
from ._bnn_side_by_side import run_side_by_side
from ._bnn_target import FilledNetwork, filled_network, stacked
from ._method import settings_text
from .base import Job

_TRIAL = 0x74726961  # folded into the keys of trials, which are the same for all step sizes
OBJECTIVES: dict[str, Callable[[], Objective]] = {"sivi": sivi, "uivi": uivi, "sivi-sm": sivi_sm}


@dataclass(frozen=True)
class Members:
    """The members of a program: every split, once for each kind of precisions.

    Attributes:
        names: Split and kind of each.
        parts: Their rows.
        targets: Stacked.
        noise: γ that is scored, in units of the dataset.
        keys: One for each.
    """

    names: list[tuple[int, str]]
    parts: list[Parts]
    targets: FilledNetwork
    noise: Float[np.ndarray, " members"]
    keys: Key[Array, " members"]

    @classmethod
    def of(
        cls, settings: Mapping[str, Any], precisions: Mapping[int, Mapping[str, Any]], kinds: Sequence[str], rows: str
    ) -> "Members":
        """Of a job's settings; `rows` says which the library's precisions see, and the paper's always see `fit`."""
        names = [(split, kind) for split in settings["splits"] for kind in kinds]
        by_split = {split: parts_of(settings["set"], split, settings["most_rows"]) for split in settings["splits"]}
        parts = [by_split[split] for split, _ in names]
        num_filled = len(parts[0].train.y) if rows == "train" and "own" in kinds else len(parts[0].fit.y)
        targets, noise = [], []
        for (split, kind), of_split in zip(names, parts, strict=True):
            seen: Rows = getattr(of_split, "fit" if kind == "paper" else rows)
            target, precision = _target(seen, num_filled, kind, precisions[split])
            targets.append(target)
            noise.append(precision)
        base = jax.random.key(settings["seed"])
        keys = [jax.random.fold_in(jax.random.fold_in(base, s), ("paper", "own").index(kind)) for s, kind in names]
        return cls(names, parts, stacked(targets), np.asarray(noise), jnp.stack(keys))

    def scores(self, draws: Float[Array, "members draws dim"], where: str = "test") -> dict[str, np.ndarray]:
        """Of draws, on the rows of the part that is named."""
        rows: list[Rows] = [getattr(parts, where) for parts in self.parts]
        return scores_of(self.targets, draws, np.stack([r.x for r in rows]), np.stack([r.y for r in rows]), self.noise)

    def rows(self, scores: Mapping[str, np.ndarray], **more: np.ndarray) -> list[dict[str, Any]]:
        """One for each member; a number that is not finite becomes None."""
        columns = {**scores, "noise_sd": self.noise**-0.5, **more}
        return [
            {"split": split, "precisions": kind, **{name: _json_value(column[i]) for name, column in columns.items()}}
            for i, (split, kind) in enumerate(self.names)
        ]


def _target(rows: Rows, num_filled: int, kind: str, precisions: Mapping[str, Any]) -> tuple[FilledNetwork, float]:
    """A member's target, and γ in units of the dataset.

    The paper's γ was found in units of the dataset, and used as it is where the targets are standardised.
    """
    if kind == "paper":
        noise = precisions["paper_noise"]
        return filled_network(rows, num_filled, precisions["paper_weight"], noise), noise
    target = filled_network(rows, num_filled, precisions["own_weight"], precisions["own_noise"])
    return target, precisions["own_noise"] / float(target.model.units.target_sd) ** 2


def _json_value(value: Any) -> float | int | None:
    if not np.isfinite(value):
        return None
    return int(value) if isinstance(value, np.integer) else float(value)


def fit_rows(settings: Mapping[str, Any], precisions_job: Job, scratch: Path) -> dict[str, Any]:
    """SIVI, UIVI or SIVI-SM with both kinds of precisions."""
    members = Members.of(settings, precisions_of(precisions_job, scratch), ("paper", "own"), "train")
    num_steps, num_draws = settings["num_steps"], settings["num_draws"]
    process = SemiImplicitFit(OBJECTIVES[settings["method"]]().bind(num_steps))
    states, seconds = run_side_by_side(process, members.targets, members.keys, num_steps, scratch)
    draws, shares = _draws_and_shares(_drawing_keys(members), states.family, num_draws)
    scores = members.scores(draws)
    rows = members.rows(scores, z_share=np.asarray(shares), skipped=np.asarray(states.skipped))
    return _numbers(rows, seconds)


def langevin_rows(settings: Mapping[str, Any], precisions_job: Job, scratch: Path) -> dict[str, Any]:
    """SGLD with both kinds; of three step sizes and two lengths those that are best on dev rows, which it does not see.

    They are chosen with few particles. Since particles do not act on each other, all run with the chosen ones alone.
    """
    members = Members.of(settings, precisions_of(precisions_job, scratch), ("paper", "own"), "fit")
    chosen, seconds = _chosen_steps(members, settings["num_steps"], made(scratch / "trial"))
    process = Langevin(jnp.int32(0), NUM_PARTICLES)
    states, more = run_side_by_side(process, chosen, members.keys, settings["num_steps"], made(scratch / "all"))
    sizes, steps = np.asarray(chosen.step_size), np.asarray(chosen.num_steps)
    return _numbers(members.rows(members.scores(states.particles), step_size=sizes, steps=steps), seconds + more)


def _chosen_steps(members: Members, num_steps: int, scratch: Path) -> tuple[LangevinMember, float]:
    """The members with step sizes and lengths that were best on the dev rows, and the seconds that this took."""
    count = len(members.names)
    targets = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * len(STEP_SIZES)), members.targets)
    keys = jnp.concatenate([_folded(members.keys, _TRIAL)] * len(STEP_SIZES))
    sizes = jnp.repeat(jnp.asarray(STEP_SIZES, float), count)
    trial = LangevinMember(targets, sizes, jnp.full(len(sizes), num_steps, jnp.int32))
    states, seconds = run_side_by_side(
        Langevin(jnp.int32(num_steps // 2), NUM_TRIAL_PARTICLES), trial, keys, num_steps, scratch
    )
    candidates = [
        (size, steps, particles[i * count : (i + 1) * count])
        for steps, particles in ((num_steps // 2, states.half_way), (num_steps, states.particles))
        for i, size in enumerate(STEP_SIZES)
    ]
    dev = np.stack([members.scores(particles, "dev")["nll"] for _, _, particles in candidates])
    best = [candidates[i] for i in np.argmin(np.where(np.isfinite(dev), dev, np.inf), axis=0)]
    step_size, steps = (jnp.asarray([c[k] for c in best], kind) for k, kind in ((0, float), (1, jnp.int32)))
    return LangevinMember(members.targets, step_size, steps), seconds


def hamiltonian_rows(settings: Mapping[str, Any], precisions_job: Job, scratch: Path) -> dict[str, Any]:
    """Short HMC, with the library's precisions."""
    members = Members.of(settings, precisions_of(precisions_job, scratch), ("own",), "train")
    process = Hamiltonian.of(jax.random.key(settings["seed"]), **settings["chains"])
    states, seconds = run_side_by_side(process, members.targets, members.keys, process.num_steps, scratch)
    draws = states.kept.reshape(len(members.names), -1, states.kept.shape[-1])
    return _numbers(members.rows(members.scores(draws), acceptance=np.asarray(states.acceptance)), seconds)


def optima_rows(settings: Mapping[str, Any], precisions_job: Job, scratch: Path) -> dict[str, Any]:
    """An ensemble of five networks at optima of the posterior, with the library's precisions."""
    members = Members.of(settings, precisions_of(precisions_job, scratch), ("own",), "train")
    process = Descent(settings["networks"], settings["num_steps"], settings["rate"])
    (weights, _), seconds = run_side_by_side(process, members.targets, members.keys, settings["num_steps"], scratch)
    return _numbers(members.rows(members.scores(weights)), seconds)


def described(method: str) -> dict[str, Any]:
    """What a method's result depends on besides the numbers that a job lists, as JSON values."""
    if method in OBJECTIVES:
        return {"objective": settings_text(OBJECTIVES[method]()), "family": FAMILY, "batch_size": BATCH_SIZE}
    if method == "sgld":
        return {
            "step_sizes": STEP_SIZES,
            "particles": NUM_PARTICLES,
            "in_trials": NUM_TRIAL_PARTICLES,
            "batch_size": BATCH_SIZE,
        }
    return {}


def _numbers(rows: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    return {"rows": rows, "seconds": seconds, "members": len(rows)}


def _drawing_keys(members: Members) -> Key[Array, " members"]:
    return _folded(members.keys, 0x64726177)


def _folded(keys: Key[Array, " members"], data: int) -> Key[Array, " members"]:
    return jax.vmap(lambda key: jax.random.fold_in(key, data))(keys)


@functools.partial(compiled)
def _draws_and_shares(
    keys: Key[Array, " members"], families: SemiImplicit, num_draws: int
) -> tuple[Float[Array, "members draws dim"], Float[Array, " members"]]:
    def one(key: Array, family: SemiImplicit) -> tuple[Array, Array]:
        draw_key, share_key = jax.random.split(key)
        return draws_of(draw_key, family, num_draws), z_share(share_key, family, num_draws)

    return jax.vmap(one)(keys, families)
