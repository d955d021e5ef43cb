"""Figures; they need matplotlib (`pip install 'sivi[plot]'`)."""

from .marginals import plot_marginals
from .pairs import plot_pairs
from .quiver import plot_arrows, plot_critic
from .samples import plot_samples
from .traces import plot_traces

__all__ = ["plot_arrows", "plot_critic", "plot_marginals", "plot_pairs", "plot_samples", "plot_traces"]
