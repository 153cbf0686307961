"""Names of files and folders that every file system takes: no path tricks, no reserved names, no two of one case."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from memsvc.domain.text_cache import remembered

SEGMENT_BYTES = 120
"""The most that a name takes in UTF-8, so that there is room for an ending, and for deep folders on Windows."""
_PLAIN = frozenset("-_.@+=, ")
_SHORT_MARK = "~"
_DIGEST = 16
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\..*)?", re.IGNORECASE)
_FORBIDDEN = re.compile(r'[\x00-\x20\x7f-\xa0<>:"/\\|?*~%!#^`$&;\'{}\[\]()]+')
_HOLES = re.compile(r"[-\s]*-[-\s]*")


@remembered(4096)
def folder_of_id(name: str) -> str:
    """Return the folder of a user, project or tenant: different ids have different ones, whatever the file system.

    A capital letter stands as "!" and the small one, other odd characters as "%" and two digits for each byte. Ids
    that would be too long end in a digest.
    """
    folder = "".join(_escaped(char) for char in name)
    if unicodedata.normalize("NFC", folder) != folder:
        folder = "".join(_escaped(char) if char.isascii() else _percent(char) for char in name)
    if folder and folder[-1] in ". ":
        folder = folder[:-1] + _percent(folder[-1])
    if folder and (folder[0] in ". " or _RESERVED.fullmatch(folder)):
        folder = _percent(folder[0]) + folder[1:]
    if len(folder.encode()) <= SEGMENT_BYTES:
        return folder
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{_cut(folder, SEGMENT_BYTES // 2).rstrip('%! .')}{_SHORT_MARK}{digest}"


def id_of_folder(folder: str) -> str | None:
    """Return the id that a folder is of, or None when it is no such folder, or does not say all of the id."""
    name = unicodedata.normalize("NFC", folder)
    parts: list[bytes] = []
    position = 0
    try:
        while position < len(name):
            char = name[position]
            if char == "%":
                parts.append(bytes.fromhex(name[position + 1 : position + 3]))
                position += 3
            elif char == "!":
                parts.append(name[position + 1].upper().encode())
                position += 2
            else:
                parts.append(char.encode())
                position += 1
        found = b"".join(parts).decode()
    except (ValueError, IndexError):
        return None
    return found if found and folder_of_id(found) == name else None


def slug(text: str, most_bytes: int) -> str:
    """Return *text* as a part of a file's name: readable in any script, at most so many bytes; perhaps empty."""
    plain = unicodedata.normalize("NFC", text)
    plain = "".join("-" if unicodedata.category(char) in _UNFIT else char for char in plain)
    plain = _HOLES.sub("-", _FORBIDDEN.sub("-", plain)).strip("-. _")
    return _cut(plain, most_bytes).strip("-. _")


def file_name(stem: str) -> str:
    """Return the name of the Markdown file of a *stem* that `slug` made, or is made of such parts."""
    safe = f"_{stem}" if _RESERVED.fullmatch(stem) else stem
    return f"{safe or 'untitled'}.md"


def path_key(path: str) -> str:
    """Return what two paths share that are one on some file system: without case, composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


_UNFIT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


def _escaped(char: str) -> str:
    if "A" <= char <= "Z":
        return f"!{char.lower()}"
    if char in _PLAIN or (char.isalnum() and char.casefold() == char):
        return char
    return _percent(char)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode())


def _cut(text: str, most_bytes: int) -> str:
    return text.encode()[:most_bytes].decode(errors="ignore")
