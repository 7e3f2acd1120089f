"""The kinds of hostile cases, and how many of each the whole campaign tries."""

from __future__ import annotations

from fuzz import bombs, commands, frames, model_files, races, table_files, threads
from fuzz.campaign import MEGABYTE, Kind

_ALL = (
    Kind(
        "model-files",
        "model files with header and arrays changed, sealed again: load, predict, explain, sample, save",
        model_files.try_content,
        goal=30_000,
        memory=48 * MEGABYTE,
        prepare=model_files.models,
    ),
    Kind(
        "model-bytes",
        "model files with bytes changed",
        model_files.try_bytes,
        goal=20_000,
        memory=16 * MEGABYTE,
        prepare=model_files.models,
    ),
    Kind(
        "table-files", "CSV, ARFF and Parquet files with bytes changed, odd options", table_files.attempt, goal=25_000
    ),
    Kind("frames", "tables of pandas, polars, pyarrow and NumPy, through every estimator", frames.attempt, goal=25_000),
    Kind(
        "signals",
        "commands that get SIGKILL, SIGINT, SIGTERM or SIGHUP at any moment",
        commands.try_signal,
        goal=200,
        prepare=commands.prepare,
    ),
    Kind(
        "full-disk",
        "commands that find the disk full or a write cut short",
        commands.try_full_disk,
        goal=200,
        prepare=commands.prepare,
    ),
    Kind(
        "pipes",
        "commands whose reader goes away, or whose streams are closed or full",
        commands.try_pipe,
        goal=200,
        prepare=commands.prepare,
    ),
    Kind(
        "two-writers",
        "one file that several processes write while it is read",
        races.try_writers,
        goal=200,
        prepare=commands.prepare,
    ),
    Kind("changing-input", "files that change while they are read", races.try_changing_input, goal=200),
    Kind("bombs", "compressed files that unpack to a thousand times their size", bombs.attempt, goal=200),
    Kind("threads", "one model used from many threads", threads.try_threads, goal=5_000, prepare=threads.prepare),
    Kind("forks", "processes forked while threads predict", threads.try_fork, goal=200, prepare=threads.prepare),
    Kind("no-threads", "models where no thread can be had", threads.try_no_threads, goal=200, prepare=threads.prepare),
)
KINDS = {kind.name: kind for kind in _ALL}
