"""Measurements against other readers. `python -m benchmarks.random_access --help`."""
