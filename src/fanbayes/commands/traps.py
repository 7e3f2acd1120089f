"""Traps of tables as notes: the library's words, with the remedies as options to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanbayes.commands.options import pasted
from fanbayes.commands.output import note
from fanbayes.data.traps import Trap, TrapKind, training_traps

if TYPE_CHECKING:
    from fanbayes.data.schema import Missing, Schema
    from fanbayes.files.dataset import Dataset
    from fanbayes.files.tables import BatchTable

_OPTIONS: dict[TrapKind, str] = {
    "few_values": "--discrete COLUMNS",
    "identifier": "--ignore COLUMNS",
    "constant": "--ignore COLUMNS",
    "date": "--ignore COLUMNS",
    "missing_text": "--missing TEXTS",
    "decimal_comma": "--decimal ,",
}


def note_training_traps(dataset: Dataset, missing: Missing = "ignorable") -> None:
    """Note what may be wrong with a table, once for all that is learnt from it."""
    from fanbayes.estimators.classifiers import NBClassifier

    cases = NBClassifier()._cases(dataset.X, dataset.y, None)
    schema, _ = cases.encoded("none", missing)
    declared = {name for name, reason in dataset.reasons.items() if reason.startswith("declared")}
    for trap in training_traps(schema, cases.sources, None, declared):
        note_trap(trap)


def note_batch_traps(table: BatchTable, schema: Schema) -> None:
    """Note what may be wrong with a table that was learnt from in batches, by the first of them."""
    from fanbayes.data.sources import frame_sources

    features = [column.name for column in schema.columns]
    first = next(iter(table.batches.only(features)))
    declared = {name for name, reason in table.reasons.items() if reason.startswith("declared")}
    for trap in training_traps(schema, list(frame_sources(first.frame)), None, declared):
        note_trap(trap)


def note_trap(trap: Trap) -> None:
    """Note one kind of trap; its remedy is a line of its own, to be pasted."""
    option = _OPTIONS.get(trap.kind, "").replace("COLUMNS", pasted(trap.columns)).replace("TEXTS", pasted(trap.texts))
    if option and trap.remedy:
        note(f"{trap.message}; {trap.condition}, use", paste=option)
    else:
        note(f"{trap.message}.")
