"""Thirty-four posteriors on which one and the same call is measured; `python benchmarks/battery --help`."""
