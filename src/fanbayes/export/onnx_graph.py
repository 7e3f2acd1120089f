"""An ONNX graph on the way: operators are called, tensors are known by their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSETS = {"": 18, "ai.onnx.ml": 4}
IR_VERSION = 9
# What a file of protocol buffers holds, less what operators and names may need.
_MOST_BYTES = 2**31 - 2**26

Tensor = str | NDArray[Any] | np.generic


class Graph:
    """Operators in their order.

    Parameters
    ----------
    taken : names that tensors must not have
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.checks: list[str] = []
        self._names: dict[Any, str] = {}
        self.size = 0

    def __call__(self, operator: str, *inputs: Tensor, name: str | None = None, **attributes: Any) -> str:
        """Name of the tensor that an operator makes; arrays among its inputs become constants."""
        output = self.new_name()
        names = [x if isinstance(x, str) else self._constant(np.asarray(x)) for x in inputs]
        domain = "ai.onnx.ml" if operator == "LabelEncoder" else ""
        self.nodes.append(helper.make_node(operator, names, [output], name or output, domain=domain, **attributes))
        return output

    def new_name(self, wanted: str = "t") -> str:
        """A name that nothing has yet: the wanted one, or that with a number behind it."""
        name, k = wanted, len(self.nodes)
        while name in self.taken:
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        return name

    def check(self, is_fine: str, sentence: str) -> None:
        """Let rows fail for which something (n, 1, 1) is not so.

        ONNX has nothing that raises. An index beyond the end is an error of the runtime, which tells the name of the
        operator, here the sentence. A runtime that lets it pass finds 0 there or something else that is not 1, by
        which the probabilities are multiplied.
        """
        bad = self("Cast", self("Not", is_fine), to=TensorProto.INT64)
        self.checks.append(self("Gather", np.ones(1), bad, name=sentence))

    def sum(self, x: str, axis: int) -> str:
        """Sum over an axis, which remains."""
        return self("ReduceSum", x, np.array([axis]), keepdims=1)

    def count_below(self, numbers: NDArray[np.float64], x: str) -> str:
        """How many of some numbers are below x (n, 1, 1)."""
        return self.sum(self("Cast", self("Less", numbers, x), to=TensorProto.INT64), 2)

    def shifted_exp(self, x: str, axis: int) -> tuple[str, str]:
        """exp(x - top), and top, the maximum over an axis, which remains."""
        top = self("ReduceMax", x, np.array([axis]), keepdims=1)
        return self("Exp", self("Sub", x, top)), top

    def log_sum_exp(self, x: str, axis: int) -> str:
        """Logarithm of sum exp(x) over an axis, which remains."""
        exp, top = self.shifted_exp(x, axis)
        return self("Add", top, self("Log", self.sum(exp, axis)))

    def softmax(self, x: str) -> str:
        """Exp(x) divided by its sum over the last of three axes."""
        exp, _ = self.shifted_exp(x, 2)
        return self("Div", exp, self.sum(exp, 2))

    def tensor(self, values: NDArray[Any], name: str | None = None) -> onnx.TensorProto:
        """An array, for a constant or an attribute."""
        self.size += values.nbytes
        if self.size > _MOST_BYTES:
            raise ValueError("the model is larger than 2 GB, which is all that an ONNX file holds; fit a smaller one")
        return numpy_helper.from_array(np.ascontiguousarray(values), name)

    def _constant(self, values: NDArray[Any]) -> str:
        """Name of a constant, the same of equal ones."""
        content = tuple(values.ravel()) if values.dtype == object else values.tobytes()
        key = values.dtype, values.shape, content
        if key not in self._names:
            self._names[key] = self.new_name("c")
            self.constants.append(self.tensor(values, self._names[key]))
        return self._names[key]
