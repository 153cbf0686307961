"""Language models behind any endpoint that speaks OpenAI's chat protocol: OpenAI, Azure, vLLM, Ollama, LM Studio."""

from backends.openai.language_model import LANGUAGE_MODEL
from backends.openai.settings import OpenAiLanguageModelSettings

__all__ = ["LANGUAGE_MODEL", "OpenAiLanguageModelSettings"]
