"""Draws the pictures of the README: the default call on the three toy targets of the SIVI-SM paper, and two modes.

python docs/make_images.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import sivi
from sivi.cli._demo_kinetics import show_kinetics
from sivi.plots import plot_samples

IMAGES = Path(__file__).parent / "images"
TARGETS = {
    "banana": sivi.targets.Banana(),
    "two modes": sivi.targets.Multimodal(),
    "X-shaped": sivi.targets.XShaped(),
}


def main() -> None:
    figure, axes = plt.subplots(1, len(TARGETS), figsize=(11.0, 3.9), layout="constrained")
    for ax, (name, target) in zip(axes, TARGETS.items(), strict=True):
        posterior = sivi.fit(target, key=0)
        plot_samples(posterior.sample(2000, key=1), target, ax=ax)
        ax.set_title(name)
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / "toy_targets.png", dpi=110)
    show_kinetics(0, IMAGES)  # as in `sivi demo`


if __name__ == "__main__":
    main()
