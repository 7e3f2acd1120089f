"""Types of arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
AnyInts = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
