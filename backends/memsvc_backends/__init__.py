"""The backends that ship with memsvc, found by entry point; memsvc never imports them by name."""
