"""The fast embedder: static word vectors, a twentieth of a millisecond a text, no model to run.

Choose it where speed matters more than quality: it is weaker than the bundled model, above all in Chinese.
Its weights descend from the token table of Llama 2, so Meta's Llama 2 Community License applies to them. That is why
the package is an extra: `pip install memsvc[wordllama]`. Nothing is downloaded; the weights are in the package.
"""

from memsvc_backends.wordllama.embedder import WORDLLAMA, WordllamaSettings

__all__ = ["WORDLLAMA", "WordllamaSettings"]
