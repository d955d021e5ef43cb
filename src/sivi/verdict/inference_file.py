"""An inference as one file: the fit as its own file has it, the draws of chains, the verdict and the path."""

import os
from typing import Any

import numpy as np

from .._errors import FitFileError
from .._layout import Layout
from .._storage.pickled import bytes_of, from_bytes
from ..posterior import Posterior
from .files import INFERENCE, as_cost, refined_from, refined_parts, verdict_from, verdict_parts, write
from .inference import Inference, Step
from .refined import Refined


def save_inference(inference: Inference, path: str | os.PathLike[str]) -> None:
    """Write an inference."""
    judged, arrays = (None, {}) if inference.verdict is None else verdict_parts(inference.verdict)
    header = {
        "format": INFERENCE,
        "layout": inference.layout.to_json(),
        "verdict": judged,
        "source": inference.source,
        "steps": [[step.name, list(step.cost), step.said] for step in inference.steps],
        "warnings": [str(sentence) for sentence in inference.warnings],
        "believed": inference.believed,
    }
    if isinstance(inference.result, Refined):
        about, own = refined_parts(inference.result)
        header, arrays = header | about, arrays | own
    if inference.posterior is not None:
        arrays["fit"] = np.frombuffer(bytes_of(inference.posterior), np.uint8)
    write(path, header, arrays)


def inference_from(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Inference:
    """The inference of a file; its posterior has no target, and is None if it needs a family of the user's own."""
    layout = Layout.from_json(header["layout"])
    verdict = None if header["verdict"] is None else verdict_from(header["verdict"], arrays, layout)
    posterior, why = _posterior_of(arrays["fit"]) if "fit" in arrays else (None, "it has neither a fit nor draws.")
    if "refined" in header:
        result = refined_from(header, arrays, layout, verdict)
    elif posterior is None:
        raise FitFileError(why)
    else:
        result = posterior
    return Inference(
        result=result,
        source=str(header["source"]),
        steps=tuple(Step(str(name), as_cost(cost), str(said)) for name, cost, said in header["steps"]),
        verdict=verdict,
        warnings=tuple(map(str, header["warnings"])),
        believed=bool(header["believed"]),
        posterior=posterior,
    )


def _posterior_of(content: np.ndarray) -> tuple[Posterior | None, str]:
    """The fit, or None for one that needs its family to be read, and why."""
    try:
        return from_bytes(content.tobytes()), ""
    except FitFileError as error:
        advice = "save inference.posterior to a file of its own, and give sivi.load its family"
        return None, f"the fit of this inference cannot be read: {error} For that, {advice}."
