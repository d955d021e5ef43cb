"""Verdicts, refined draws and inferences as files: a JSON header and plain arrays, as fits are."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import check_path
from .._errors import FitFileError
from .._layout import Layout
from .._storage import container
from .findings import Finding
from .limits import LEVELS
from .refined import Refined
from .result import Cost, ModeFound, Predicted, Verdict

if TYPE_CHECKING:
    from .inference import Inference

_VERDICT, _REFINED, INFERENCE = "verdict 1", "refined 1", "inference 1"
#: What reading a header that nobody meant to write can raise.
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError)


def save_verdict(verdict: Verdict, path: str | os.PathLike[str]) -> None:
    """Write a verdict."""
    header, arrays = verdict_parts(verdict)
    write(path, {"format": _VERDICT, "layout": verdict.layout.to_json(), "verdict": header}, arrays)


def save_refined(refined: Refined, path: str | os.PathLike[str]) -> None:
    """Write refined draws, with their verdict."""
    header, arrays = (None, {}) if refined.verdict is None else verdict_parts(refined.verdict)
    whole = {"format": _REFINED, "layout": refined.layout.to_json(), "verdict": header}
    about, own = refined_parts(refined)
    write(path, whole | about, arrays | own)


def load_verdict(path: str | os.PathLike[str]) -> "Verdict | Refined | Inference":
    """A verdict, refined draws, or what `sivi.infer` returned, from the file that `save` wrote.

    Args:
        path: The file.
    """
    file = check_path("path", path)
    if not file.is_file():
        raise FileNotFoundError(f"path must be a file of a verdict; there is no file {str(file)!r}.")
    header, arrays = container.read(file)
    if header.get("format") not in (_VERDICT, _REFINED, INFERENCE):
        raise FitFileError(f"{file} is not the file of a verdict, of refined draws or of an inference.")
    try:
        if header["format"] == INFERENCE:
            from .inference_file import inference_from  # which uses this module

            return inference_from(header, arrays)
        layout = Layout.from_json(header["layout"])
        verdict = None if header["verdict"] is None else verdict_from(header["verdict"], arrays, layout)
        if header["format"] == _REFINED:
            return refined_from(header, arrays, layout, verdict)
        if verdict is None:
            raise ValueError("it has no verdict")
    except FitFileError:
        raise
    except _MALFORMED as error:
        raise FitFileError(f"{file} has a malformed header: {type(error).__name__}: {error}") from error
    return verdict


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    file = check_path("path", path)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"path must be in an existing folder; {str(file.parent)!r} is not one.")
    container.write(file, header, arrays)


def verdict_parts(verdict: Verdict) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header = {
        "findings": [_finding_parts(item) for item in verdict.findings],
        "modes": [[mode.mass, mode.error, mode.share] for mode in verdict.modes],
        "cost": list(verdict.cost),
        "not_looked_at": list(verdict.not_looked_at),
        "memory": verdict.memory,
        "repeats": [[_finding_parts(item) for item in own] for own in verdict.repeats],
        "slight": [_finding_parts(item) for item in verdict.slight],
    }
    predicted = {}
    if verdict.predicted is not None:
        header["predictions"] = list(verdict.predicted.names)
        predicted = {"predicted_draws": verdict.predicted.draws, "predicted_late": verdict.predicted.late}
    places = [mode.place for mode in verdict.modes]
    places = np.stack(places) if places else np.zeros((0, verdict.layout.dim), verdict.draws.dtype)
    return header, {"draws": verdict.draws, "late": verdict.late, "places": np.asarray(places, float)} | predicted


def verdict_from(header: dict[str, Any], arrays: dict[str, np.ndarray], layout: Layout) -> Verdict:
    findings = _findings_from(header["findings"])
    places = as_matrix(arrays["places"], layout)
    modes = tuple(ModeFound(place, *map(float, row)) for place, row in zip(places, header["modes"], strict=True))
    return Verdict(
        findings=findings,
        modes=modes,
        cost=as_cost(header["cost"]),
        not_looked_at=tuple(map(str, header["not_looked_at"])),
        layout=layout,
        draws=as_matrix(arrays["draws"], layout),
        late=as_matrix(arrays["late"], layout),
        memory=float(header["memory"]),
        repeats=tuple(map(_findings_from, header["repeats"])),
        slight=_findings_from(header["slight"]),
        predicted=_predicted_from(header, arrays),
    )


def _predicted_from(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Predicted | None:
    """The predictions that were judged; None of a verdict about unknowns."""
    if "predictions" not in header:
        return None
    names, of = tuple(map(str, header["predictions"])), (arrays["predicted_draws"], arrays["predicted_late"])
    rows = (len(arrays["draws"]), len(arrays["late"]))
    for values, num in zip(of, rows, strict=True):
        if values.shape != (num, len(names)):
            raise ValueError(f"an array has shape {values.shape}, for {len(names)} predictions of {num} draws")
    return Predicted(names, *of)


def _finding_parts(item: Finding) -> dict[str, Any]:
    return item._asdict() | {"unknowns": list(item.unknowns)}


def _findings_from(items: list[dict[str, Any]]) -> tuple[Finding, ...]:
    findings = tuple(Finding(**item | {"unknowns": tuple(item["unknowns"])}) for item in items)
    if any(item.level not in LEVELS[1:] for item in findings):
        raise ValueError("a finding has an unknown level")
    return findings


def refined_parts(refined: Refined) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Refined draws without their verdict."""
    return {"refined": {"cost": list(refined.cost), "ended": refined.ended}}, {"refined": refined.draws}


def refined_from(
    header: dict[str, Any], arrays: dict[str, np.ndarray], layout: Layout, verdict: Verdict | None
) -> Refined:
    about = header["refined"]
    draws = as_matrix(arrays["refined"], layout)
    return Refined(draws, layout, verdict, as_cost(about["cost"]), str(about["ended"]))


def as_matrix(array: np.ndarray, layout: Layout) -> np.ndarray:
    if array.ndim != 2 or array.shape[1] != layout.dim:
        raise ValueError(f"an array has shape {array.shape}, for {layout.dim} unknowns")
    return array


def as_cost(values: Any) -> Cost:
    seconds, gradients = values
    return Cost(float(seconds), int(gradients))
