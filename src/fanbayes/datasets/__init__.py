"""Datasets to try classifiers on: suites of them, tables read from files, and generated data (`generators`)."""

from fanbayes.datasets.suites import RELATED, Dataset, DatasetError, Kind, Suite, load_suite, read_table

__all__ = ["RELATED", "Dataset", "DatasetError", "Kind", "Suite", "load_suite", "read_table"]
