"""What `sivi.check` sees and what it takes for a fault that is none; `python benchmarks/verdict --help`."""
