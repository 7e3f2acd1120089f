"""Local distributions: one file for each kind of feature."""

from __future__ import annotations

from fanbayes.model.blocks.base import Block, EstimationOptions
from fanbayes.model.blocks.categorical import Categorical
from fanbayes.model.blocks.gaussian import Gaussian
from fanbayes.model.blocks.poisson import Poisson

# By the name of a column's distribution.
BLOCKS: dict[str, type[Block]] = {block.name: block for block in (Categorical, Gaussian, Poisson)}

__all__ = ["BLOCKS", "Block", "EstimationOptions"]
