"""The kinds of hostile cases, and how many of each the whole campaign tries."""

from __future__ import annotations

from fuzz import frames, model_files, table_files
from fuzz.campaign import MEGABYTE, Kind

_ALL = (
    Kind(
        "model-files",
        "model files with header and arrays changed, sealed again: load, predict, explain, sample, save",
        model_files.try_content,
        goal=40_000,
        memory=48 * MEGABYTE,
        prepare=model_files.models,
    ),
    Kind(
        "model-bytes",
        "model files with bytes changed",
        model_files.try_bytes,
        goal=10_000,
        memory=16 * MEGABYTE,
        prepare=model_files.models,
    ),
    Kind(
        "table-files", "CSV, ARFF and Parquet files with bytes changed, odd options", table_files.attempt, goal=20_000
    ),
    Kind("frames", "tables of pandas, polars, pyarrow and NumPy, through every estimator", frames.attempt, goal=25_000),
)
KINDS = {kind.name: kind for kind in _ALL}
