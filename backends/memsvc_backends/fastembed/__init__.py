"""Embedding models in the ONNX format, on the processor of this machine, by the package fastembed.

It is an extra, `pip install memsvc[fastembed]`, and is imported when an embedder is opened. Models are files that the
package downloads once from a hub, or that is installed by hand: without a network set `path`, or `cache_dir` and
`download`.
"""

from memsvc_backends.fastembed.entry_point import FASTEMBED
from memsvc_backends.fastembed.settings import FastembedSettings

__all__ = ["FASTEMBED", "FastembedSettings"]
