"""Paths of memories in the vault, and the fields that a path implies.

users/USER/core|short_term|long_term/YYYYMMDD_category_title.md
users/USER/context/NAME.md, daily/YYYY-MM-DD.md, knowledge/world|experience|opinions/KEY.md
users/USER/sessions/YYYY-MM/...    what is private to sessions, and their transcripts
users/USER/archive/...             the same folders, of what is no longer in use
users/USER/projects/PROJECT/...    the same again for a project
tenants/TENANT/users/USER/...      the same again for a tenant
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import PurePosixPath

from memsvc.domain.memory import Kind, Layer, Memory, Status
from memsvc.domain.memory_keys import CONTEXT, DAILY, KNOWLEDGE, convention_of
from memsvc.domain.scope import Scope

TENANTS, USERS, PROJECTS, SESSIONS, ARCHIVE = "tenants", "users", "projects", "sessions", "archive"
CORE, SHORT_TERM, LONG_TERM = "core", "short_term", "long_term"
ABSENT = frozenset({Status.DELETED, Status.QUARANTINED})
"""A memory of such a status has no file: what waits for a review must not be read as if it had passed it."""
PUT_AWAY = frozenset({Status.ARCHIVED, Status.EXPIRED, Status.SUPERSEDED})
"""Files of memories of these statuses are in archive/."""
CATEGORY_BYTES, TITLE_BYTES, KEY_BYTES = 40, 80, 100
PATH_CHARS = 700
"""A longer path in the vault is not looked at."""
_LAYERS: Mapping[str, Layer] = {
    CORE: Layer.CORE,
    SHORT_TERM: Layer.SHORT_TERM,
    LONG_TERM: Layer.LONG_TERM,
}
_FOLDERS = {layer: folder for folder, layer in _LAYERS.items()}
_NAMED = re.compile(r"(?P<date>[0-9]{8})_(?P<category>[^_]+)_(?P<title>.+)")
SUFFIX = ".md"
_PASSING = (
    re.compile(r"\.conflict-[^/]*\.md$", re.IGNORECASE),  # our own: the other side of a conflict
    re.compile(r"^#.*#$"),  # Emacs saves unsaved work so
    re.compile(r"^~"),  # Office, Syncthing
    re.compile(r"_(BACKUP|BASE|LOCAL|REMOTE)_[0-9]+\.md$", re.IGNORECASE),  # git mergetool
)
_KINDS = {kind.value.lower(): kind for kind in Kind if kind is not Kind.MESSAGE}
SEGMENT_BYTES = 120
"""The most that a name takes in UTF-8, so that there is room for an ending, and for deep folders on Windows."""
_PLAIN = frozenset("-_.@+=, ")
_SHORT_MARK = "~"
_DIGEST = 16
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\..*)?", re.IGNORECASE)
_LISTINGS = frozenset({"index", "log"})
"""Names that the Open Knowledge Format keeps for lists and histories of folders."""
_FORBIDDEN = re.compile(r'[\x00-\x20\x7f-\xa0<>:"/\\|?*~%!#^`$&;\'{}\[\]()]+')
_HOLES = re.compile(r"[-\s]*-[-\s]*")
_UNFIT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


@dataclass(frozen=True, slots=True)
class NoteLocation:
    """Path of a memory's file.

    Attributes:
        folder: Of the file, from the vault's root, with "/".
        anchor: The folder and all of the name that the memory gives by itself. While it stays the same the file stays
            where it is, whatever name a person gave it.
        candidates: Names of the file in the order of preference; the last is unique.
    """

    folder: str
    anchor: str
    candidates: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the candidates as paths."""
        return tuple(f"{self.folder}/{name}" for name in self.candidates)


@dataclass(frozen=True, slots=True)
class NotePath:
    """Fields of a memory that its path implies.

    Attributes:
        root: The folder of the user, or of the project.
        scope: Whose it is; None: the folders' names do not say, since they are shortened.
        layer: Of what is new there; None: none can be new there.
        rest: The folders between the root and the file, the first of them telling the layer; "archive" is left out.
        stem: The name without its ending.
    """

    root: str
    scope: Scope | None
    layer: Layer | None
    rest: tuple[str, ...]
    stem: str
    is_archived: bool
    key: str = ""
    fault: str = ""


def root_of(scope: Scope) -> str:
    """Return the folder of all that belongs to the user and project of *scope*."""
    root = user_folder(scope)
    return f"{root}/{PROJECTS}/{folder_of_id(scope.project_id)}" if scope.project_id else root


def user_folder(scope: Scope) -> str:
    """Return the folder of all that belongs to the user of *scope*."""
    user = f"{USERS}/{folder_of_id(scope.user_id)}"
    return f"{TENANTS}/{folder_of_id(scope.tenant_id)}/{user}" if scope.tenant_id else user


def named_root(root: str) -> str:
    """Return the folder of the user or project whose ids the names in *root* are; empty: a name is a shortened one."""
    parts = [unicodedata.normalize("NFC", part) for part in root.split("/")]
    names = [part if id_of_folder(part) is not None else folder_of_id(part) for part in parts[1::2]]
    if any(_SHORT_MARK in name for name in parts[1::2]):
        return ""
    return "/".join(part for pair in zip(parts[::2], names, strict=True) for part in pair)


def has_file(memory: Memory) -> bool:
    """Return whether a memory has a file of its own: messages of a session are in its transcript."""
    return memory.status not in ABSENT and not is_said(memory)


def is_said(memory: Memory) -> bool:
    """Return whether a memory is a message of a session."""
    return memory.kind is Kind.MESSAGE and memory.scope.session_id != ""


def location_of(memory: Memory) -> NoteLocation:
    """Return where the file of *memory* belongs."""
    folder, stem = _folder_and_stem(memory)
    root = root_of(memory.scope)
    folder = f"{root}/{ARCHIVE}/{folder}" if memory.status in PUT_AWAY else f"{root}/{folder}"
    name = stem or _stem(memory, memory.title)
    short = memory.id.replace("-", "")[-8:]
    shown = name if stem or memory.title else _stem(memory, _first_words(memory.content))
    candidates = (file_name(shown), file_name(f"{shown}-{short}"), file_name(f"{shown}-{memory.id}"))
    return NoteLocation(folder, f"{folder}/{name}", candidates)


def transcript_path(scope: Scope, first_time: datetime) -> tuple[str, ...]:
    """Return paths for the transcript of a session in the order of preference; the last is no other session's."""
    moment = first_time.astimezone(UTC)
    folder = f"{root_of(scope)}/{SESSIONS}/{moment:%Y-%m}"
    stem = f"{moment:%Y%m%d_%H%M%S}"
    whole = folder_of_id(scope.session_id)
    name = slug(scope.session_id, CATEGORY_BYTES) or "session"
    return (f"{folder}/{stem}_{name}.md", f"{folder}/{stem}_{name}_{whole}.md")


# Files of a vault that are no memories: those that editors, systems and tools leave.


def is_memory_path(path: str) -> bool:
    """Return whether *path*, relative and with slashes, is where a memory may lie.

    Only Markdown files are, since editors' swap, backup and temporary files all end otherwise: `.x.md.swp`, `4913`,
    `x.md~`, `x.md.tmp`, `x.md___jb_tmp___`. Nothing whose name, or a folder's on the way, begins with a dot is: `.git`,
    `.obsidian`, `.#x.md`, `.trash`. Nor is a name that is no text, as old archives hold them.
    """
    return is_text(path) and _may_be_memory(path)


def _may_be_memory(path: str) -> bool:
    folders, _, name = path.rpartition("/")
    return (
        len(name) > len(SUFFIX)
        and name.lower().endswith(SUFFIX)
        and not name.startswith(".")
        and is_watched_folder(folders)
        and not any(pattern.search(name) for pattern in _PASSING)
    )


def is_watched_folder(path: str) -> bool:
    """Return whether memories may lie in the folder *path*; the empty one is the vault itself."""
    return not path or not any(part.startswith(".") for part in path.split("/"))


def is_text(path: str) -> bool:
    """Return whether the bytes of a path that the system gave are UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_note(path: str) -> bool:
    """Return whether the vault imports a file: `is_memory_path`, and in the folder of a user."""
    return is_text(path) and _may_be_note(path)


def is_listing(path: str) -> bool:
    """Return whether a file has a name that the Open Knowledge Format keeps for lists and histories of folders."""
    return PurePosixPath(path).stem.lower() in _LISTINGS


def readable_misnamed_path(path: str) -> str | None:
    r"""Return how to tell people of a path that would be a note if it were UTF-8, as in `caf\xe9.md`; else None."""
    if is_text(path) or not _may_be_note(path):
        return None
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _may_be_note(path: str) -> bool:
    parts = path.split("/")
    is_valid = len(path) <= PATH_CHARS and all(parts) and "\\" not in path and "\0" not in path
    return is_valid and parts[0] in {USERS, TENANTS} and _may_be_memory(path)


# Other paths of the vault.


def conflict_path(path: str, mark: str) -> str:
    """Return the path next to *path* for the losing version of a conflict; the vault ignores it."""
    whole = PurePosixPath(path)
    return str(whole.with_name(f"{_fit_name(whole.stem)}.conflict-{mark}.md"))


def parse_note_path(path: str) -> NotePath | None:
    """Return the fields that *path* implies, or None when it is in no user's folder."""
    parts = path.split("/")
    tenant = parts[1] if parts[0] == TENANTS and len(parts) > 2 else ""  # noqa: PLR2004 - tenant and more
    at = 2 if tenant else 0
    if len(parts) < at + 3 or parts[at] != USERS:
        return None
    user, project, at = parts[at + 1], "", at + 2
    if parts[at] == PROJECTS and len(parts) > at + 2:
        project, at = parts[at + 1], at + 2
    rest, stem = tuple(parts[at:-1]), parts[-1].removesuffix(".md").removesuffix(".MD")
    is_archived = rest[:1] == (ARCHIVE,)
    rest = rest[1:] if is_archived else rest
    key, fault = _key_of(rest, stem)
    convention = convention_of(key) if key else None
    layer = convention.layer if convention is not None else _LAYERS.get(rest[0] if rest else LONG_TERM, Layer.LONG_TERM)
    if rest[:1] == (SESSIONS,):
        layer = Layer.SESSION
    root = "/".join(parts[:at])
    return NotePath(root, _scope(tenant, user, project), layer, rest, stem, is_archived, key, fault)


def layer_of_move(before: str, after: str) -> Layer | None:
    """Return the layer that moving a file from one path to another gives its memory; None: the one it has."""
    old, new = parse_note_path(before), parse_note_path(after)
    if old is None or new is None or old.rest[:1] == new.rest[:1] or not new.rest:
        return None
    return _LAYERS.get(new.rest[0])


def fields_of_name(stem: str) -> tuple[str, Kind | None, str]:
    """Return category, kind and title that the name of a new file gives; empty or None where it gives none."""
    found = _NAMED.fullmatch(stem)
    if found is None:
        return "", None, stem
    category = found["category"]
    kind = _KINDS.get(category.lower())
    return ("" if kind else category), kind, found["title"].replace("-", " ").strip() or stem


def _scope(tenant: str, user: str, project: str) -> Scope | None:
    tenant_id = id_of_folder(tenant) if tenant else ""
    project_id = id_of_folder(project) if project else ""
    user_id = id_of_folder(user)
    if user_id is None or tenant_id is None or project_id is None:
        return None
    return Scope(user_id, project_id, tenant_id=tenant_id)


def _key_of(rest: tuple[str, ...], stem: str) -> tuple[str, str]:
    """Return the key that a place says, and what is wrong with the place for a new file."""
    if rest[:1] == ("daily",):
        key = DAILY + stem
        return (key, "") if convention_of(key) else ("", "A file in daily/ is named by its day, such as 2026-02-06.md.")
    if rest[:1] == ("context",):
        return CONTEXT + stem, ""
    if rest[:1] == ("knowledge",):
        key = f"{KNOWLEDGE}{'/'.join(rest[1:])}/{stem}"
        is_known = len(rest) > 1 and convention_of(key) is not None
        return (
            (key, "")
            if is_known
            else ("", "Files of knowledge must be in knowledge/world, knowledge/experience or knowledge/opinions.")
        )
    if rest[:1] == (SESSIONS,):
        return "", "What belongs to sessions is not made by files: move it to another folder."
    return "", ""


def _folder_and_stem(memory: Memory) -> tuple[str, str]:
    """Return the folder within the root, and the name if the key gives it."""
    key = memory.key
    if convention_of(key) is not None:
        section, _, name = key.partition("/")
        if section == "knowledge":
            category, _, name = name.partition("/")
            return f"knowledge/{category}", _key_stem(name, memory)
        return section, _key_stem(name, memory)
    if memory.layer is Layer.SESSION:
        return f"{SESSIONS}/{memory.create_time.astimezone(UTC):%Y-%m}", ""
    return _FOLDERS[memory.layer], ""


def _key_stem(name: str, memory: Memory) -> str:
    return slug(name, KEY_BYTES) or memory.id


def _stem(memory: Memory, title: str) -> str:
    category = slug(memory.category.replace("_", "-"), CATEGORY_BYTES) or memory.kind.value.lower()
    named = slug(title, TITLE_BYTES) or "untitled"
    return f"{memory.create_time.astimezone(UTC):%Y%m%d}_{category}_{named}"


def _first_words(content: str) -> str:
    line = next((one for one in content[:2_000].splitlines() if one.strip(" #-*>\t")), "")
    return line.strip(" #-*>\t")[:60]


def _fit_name(stem: str) -> str:
    return stem.encode()[:200].decode(errors="ignore")


# Names of files and folders that every file system takes: no path tricks, no reserved names, no two of one case.


@lru_cache(maxsize=4096)
def folder_of_id(name: str) -> str:
    """Return the folder of a user, project or tenant: different ids have different ones, whatever the file system.

    A capital letter is written as "!" and the small one, other odd characters as "%" and two digits for each byte. Ids
    that would be too long end in a digest.
    """
    folder = "".join(_escape(char) for char in name)
    if unicodedata.normalize("NFC", folder) != folder:
        folder = "".join(_escape(char) if char.isascii() else _percent(char) for char in name)
    if folder and folder[-1] in ". ":
        folder = folder[:-1] + _percent(folder[-1])
    if folder and (folder[0] in ". " or _RESERVED.fullmatch(folder)):
        folder = _percent(folder[0]) + folder[1:]
    if len(folder.encode()) <= SEGMENT_BYTES:
        return folder
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{_truncate(folder, SEGMENT_BYTES // 2).rstrip('%! .')}{_SHORT_MARK}{digest}"


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
    return _truncate(plain, most_bytes).strip("-. _")


def file_name(stem: str) -> str:
    """Return the name of the Markdown file of a *stem* that `slug` made, or is made of such parts."""
    safe = f"_{stem}" if _RESERVED.fullmatch(stem) or stem.lower() in _LISTINGS else stem
    return f"{safe or 'untitled'}.md"


def path_key(path: str) -> str:
    """Return what two paths share that are one on some file system: without case, composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _escape(char: str) -> str:
    if "A" <= char <= "Z":
        return f"!{char.lower()}"
    if char in _PLAIN or (char.isalnum() and char.casefold() == char):
        return char
    return _percent(char)


def _percent(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode())


def _truncate(text: str, most_bytes: int) -> str:
    return text.encode()[:most_bytes].decode(errors="ignore")
