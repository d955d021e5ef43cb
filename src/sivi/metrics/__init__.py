"""Distances between samples."""

from .knn_kl import knn_kl

__all__ = ["knn_kl"]
