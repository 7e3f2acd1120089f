"""Local distributions: one file for each kind of feature."""

from __future__ import annotations

from fanbayes.model.blocks.base import Block, EstimationOptions
from fanbayes.model.blocks.categorical import Categorical
from fanbayes.model.blocks.gaussian import Gaussian
from fanbayes.model.blocks.linear_gaussian import LinearGaussian
from fanbayes.model.blocks.poisson import Poisson

# By the name of a column's distribution.
BLOCKS: dict[str, type[Block]] = {block.name: block for block in (Categorical, Gaussian, LinearGaussian, Poisson)}


def of_numbers() -> list[str]:
    """Names of the distributions that a column of numbers may have by itself."""
    return [name for name, block in BLOCKS.items() if block.term in ("normal", "linear")]


__all__ = ["BLOCKS", "Block", "EstimationOptions", "of_numbers"]
