"""Fitted models in plain values: what `fanbayes show` prints, and what machines may want to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fanbayes.arrays import Floats
from fanbayes.data.schema import Schema
from fanbayes.explanation.profiles import component_profiles
from fanbayes.model.network import Network

_TRAITS = 4


def describe_features(schema: Schema, information: Floats) -> list[dict[str, Any]]:
    """Features, the most informative first."""
    return [
        {
            "feature": schema[j].name,
            "kind": schema[j].kind,
            "levels": schema[j].n_levels,
            "missing": "informative" if j in schema.indicator_of else "ignorable",
            "information": float(information[j]),
        }
        for j in np.argsort(-information, kind="stable").tolist()
    ]


def describe_components(network: Network, schema: Schema, labels: Sequence[Any]) -> list[dict[str, Any]]:
    """Each cell with its share and the traits in which it differs most."""
    profiles, cells = component_profiles(network, schema), []
    for k, share in enumerate(profiles.share.tolist()):
        difference = profiles.difference[:, k]
        strongest = [i for i in np.argsort(-np.abs(difference), kind="stable").tolist() if abs(difference[i]) >= 0.05]
        traits = [
            {"feature": profiles.traits[i][0], "level": profiles.traits[i][1], "difference": float(difference[i])}
            for i in strongest[:_TRAITS]
        ]
        of_class = {} if profiles.class_of is None else {"class": labels[profiles.class_of[k]]}
        cells.append({**of_class, "component": int(profiles.component_of[k]), "share": share, "traits": traits})
    return cells
