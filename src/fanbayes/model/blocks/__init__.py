"""Local distributions: one file for each kind of feature."""

from __future__ import annotations

from fanbayes.model.blocks.base import Block, EstimationOptions
from fanbayes.model.blocks.categorical import Categorical
from fanbayes.model.blocks.gaussian import Gaussian
from fanbayes.model.blocks.linear_gaussian import LinearGaussian
from fanbayes.model.blocks.multivariate_normal import MultivariateNormal
from fanbayes.model.blocks.poisson import Poisson

# By the name of a column's distribution.
BLOCKS: dict[str, type[Block]] = {block.name: block for block in (Categorical, Gaussian, LinearGaussian, Poisson)}


def block_type(distribution: str, options: EstimationOptions) -> type[Block]:
    """The block of columns of a distribution: normal ones may be correlated."""
    is_full = distribution == "gaussian" and options.covariance == "full"
    return MultivariateNormal if is_full else BLOCKS[distribution]


def of_numbers() -> list[str]:
    """Names of the distributions that a column of numbers may have by itself."""
    return [name for name, block in BLOCKS.items() if block.term in ("normal", "linear")]


__all__ = ["BLOCKS", "Block", "EstimationOptions", "block_type", "of_numbers"]
