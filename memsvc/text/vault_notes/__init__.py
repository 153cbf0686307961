"""Memories as Markdown files with YAML front matter, and back.

The file is a line "---", YAML, a line "---", an empty line, the content exactly as it is, and one line end more, which
editors add anyhow. So the content comes back exactly, whatever it holds; a file that was saved with Windows line ends
throughout is read as if it had none of them.
"""

from memsvc.text.vault_notes.parser import is_transcript, read_note, unmerged_lines
from memsvc.text.vault_notes.renderer import file_bytes, note_of, render_note

__all__ = ["file_bytes", "is_transcript", "note_of", "read_note", "render_note", "unmerged_lines"]
