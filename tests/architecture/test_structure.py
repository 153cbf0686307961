"""Structure of the code base: names of modules, number and size of files, length of call paths."""

from __future__ import annotations

import ast
import io
import json
import re
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source_files import ROOT, hand_written, lines, nodes, text_of, tree

pytestmark = pytest.mark.xdist_group("architecture")
"""One process parses the files once."""
FIELD_TERMS = {
    "chunking",
    "stemming",
    "scoring",
    "ranking",
    "rendering",
    "formatting",
    "indexing",
    "monitoring",
    "testing",
    "tracing",
}
"""Nouns of the field that end like a gerund."""
ENDINGS = ("ing", "ed")
NOUNS = ("feed", "fastembed")
"""Nouns and names of products that end like a participle."""
VAGUE = {"base", "common", "core", "helpers", "manager", "misc", "tools", "utils", "util", "stuff"}
QUESTION_WORDS = {"What", "Which", "Who", "Whose", "Where", "Whether", "How", "When"}
# 475 until the text of files came: its extraction has a file for each format and one for each side of the process. Then
# imports from other systems, the front matter of OKF, and the setup of coding agents. Then reports of use: their rules,
# storage, replay, migration, contract and commands. Then the plugins of two more agents. Then traits of persons, by language.
# Then the faults of JSON, which the server and the commands name alike, and how store and indexes connect to PostgreSQL.
# Then the work for owners who are busy in another process, and the layer that reads statements.
# Then the migrations of indexes of memories that are due, of the references in summaries and of the copies in a vault.
# Then summaries by their sources: the rules, their storage and a migration; and the purge of what was deleted long ago.
# Then the removal of embeddings that no stored text needs.
MOST_FILES = 520
MOST_LINE_CHARS = 120
LEAST_MEDIAN_LINES = 150
MOST_FILES_OF_A_CALL = {"CreateMemory": 83, "Search": 58}


def test_modules_are_named_by_nouns_of_the_field() -> None:
    """No module or package is named by a bare gerund, a participle or a word that says nothing."""
    names = {
        (part, str(path.relative_to(ROOT)))
        for path in hand_written()
        for part in (path.stem, *path.relative_to(ROOT).parent.parts)
    }
    wrong = {
        where
        for name, where in names
        if name in VAGUE
        or ("_" not in name and name.endswith(ENDINGS) and not name.endswith(NOUNS) and name not in FIELD_TERMS)
    }

    assert wrong == set()


def test_files_are_subjects_and_not_crumbs() -> None:
    """There are few enough files to know them, and the usual one holds a whole subject."""
    sizes = [lines(path) for path in hand_written()]

    assert len(sizes) <= MOST_FILES
    assert statistics.median(sizes) >= LEAST_MEDIAN_LINES


def test_test_modules_outside_packages_have_names_of_their_own() -> None:
    """One process can import a second module of that name in no folder, so that a run of all tests leaves it out."""
    found: dict[str, list[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        if not (path.parent / "__init__.py").exists():
            found.setdefault(path.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


def test_docstrings_open_with_a_noun_or_an_imperative() -> None:
    """No docstring opens with a question word: it would paraphrase the name instead of stating the promise."""
    wrong = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in hand_written()
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node))
        and docstring.split()[0] in QUESTION_WORDS
    ]

    assert wrong == []


@pytest.fixture(scope="module")
def call_paths() -> dict[str, list[str]]:
    """The files that one CreateMemory and one Search of a real service run through."""
    command = [sys.executable, "-m", "tests.architecture.call_paths", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    result: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("method", MOST_FILES_OF_A_CALL)
def test_a_call_runs_through_few_files(call_paths: dict[str, list[str]], method: str) -> None:
    """Somebody who follows a call from its arrival to the disk opens a number of files that a day suffices for."""
    assert 20 < len(call_paths[method]) <= MOST_FILES_OF_A_CALL[method]


MIRRORS = ("memsvc/cli/", "memsvc/client/", "memsvc/mcp/")
"""Packages that speak the API and must not import the domain: their classes repeat its names for the same things."""
NOUNS_IN_ED_OR_ING = {"Finding", "Pooling", "Setting", "Tracing"}
PARTICIPLES_OF_CALLERS = {
    "running": "the context manager that the command line opens a service by: `with running(settings)`",
    "owned": "the context manager of the data directory: `with owned(directory)`",
    "configured": "what the command line reads as `tracing.configured(…)`",
    "gone": "the handler that the command line gives the vault's watcher",
}
WORDS_IN_ED_OR_ING = {"embed", "feed", "heading", "ping", "seed"}
"""Verbs, and nouns that end like a participle."""
IMMUTABLE = {
    "Cue": "a pattern of a word list, compiled at its first use",
    "EnumTable": "the numbers of one enumeration",
    "NoImageExtractor": "has no state",
    "PhraseList": "a section of a word list, read at its first use",
    "Redactor": "has no state but its switch",
    "_ThreadParser": "the Markdown parser of each thread, which is not thread-safe; results depend on the text alone",
    "_ThreadStemmers": "the stemmers of each thread, which are not thread-safe; results depend on the word alone",
    "_Unreadable": "a marker for a request that is not a message",
}
"""Classes that modules hold an instance of, which is no hidden input: why."""
CONTEXT_VARIABLES = {
    "notices", "CALL_DEADLINE", "CALL_START", "PAYER", "audit_scope", "current", "deadline", "principal", "request_id",
}  # fmt: skip
"""State of one call, which threads that work for it inherit."""


def _classes() -> dict[str, list[tuple[str, ast.ClassDef]]]:
    found: dict[str, list[tuple[str, ast.ClassDef]]] = {}
    for path in hand_written():
        where = str(path.relative_to(ROOT))
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append((where, node))
    return found


def test_a_class_name_means_one_thing() -> None:
    """No two classes of the service have the same name, private ones included."""
    several = {
        name: places
        for name, nodes in _classes().items()
        if len(places := [where for where, _ in nodes if not where.startswith(MIRRORS)]) > 1
    }

    assert several == {}


def test_classes_and_functions_are_not_named_by_bare_participles() -> None:
    """A class is a thing and a function an operation: `WriteResult`, not `Written`; `normalise`, not `normalised`."""
    wrong: list[str] = []
    for path in hand_written():
        where = str(path.relative_to(ROOT))
        if where.startswith((*MIRRORS, "memsvc/server/", "memsvc/testing/")):
            continue
        module = tree(path)
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                functions += [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
                name = node.name.lstrip("_")
                is_one_word = sum(letter.isupper() for letter in name) == 1
                if is_one_word and name.endswith(ENDINGS) and name not in NOUNS_IN_ED_OR_ING:
                    wrong.append(f"{where}: {node.name}")
        wrong += [
            f"{where}: {one.name}"
            for one in functions
            if "_" not in one.name
            and one.name.endswith(ENDINGS)
            and not one.name.endswith(NOUNS)
            and one.name not in FIELD_TERMS | WORDS_IN_ED_OR_ING | PARTICIPLES_OF_CALLERS.keys()
        ]

    assert wrong == []


def _is_frozen(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).split("[")[0] for base in node.bases}
    is_value = any(base.endswith("Enum") for base in bases) or "NamedTuple" in bases
    return is_value or any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_modules_hold_no_mutable_instances() -> None:
    """State that functions of a module share is a hidden input: it belongs in an object that callers pass in."""
    frozen = {
        name: all(_is_frozen(node) for where, node in nodes if not where.startswith(MIRRORS))
        for name, nodes in _classes().items()
    }
    wrong: list[str] = []
    for path in hand_written():
        if str(path.relative_to(ROOT)).startswith(MIRRORS):
            continue
        for node in tree(path).body:
            if not (isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)):
                continue
            maker = node.value.func
            name = ast.unparse(maker).split("[")[0].split(".")[-1]
            target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            is_own = name in frozen and not frozen[name] and name not in IMMUTABLE
            if is_own or (name == "ContextVar" and target not in CONTEXT_VARIABLES):
                wrong.append(f"{path.relative_to(ROOT)}: {target} = {name}(…)")

    assert wrong == []


METAPHORS = re.compile(
    r"\b(anew|everybody|gives? way|has its way|is good for|lets? go|lends?|lent|lies|meanwhile|nobody|put away|somebody"
    r"|stands?|told|what is there|whoever)\b",
    re.IGNORECASE,
)
"""Words that paraphrase a term: rebuilt, all owners, yields, wins, is authorised for, releases, claimed, is, no client."""


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings, also those of attributes, and the comments of a file, with their lines."""
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_docstrings_and_comments_use_terms_instead_of_metaphors() -> None:
    """The prose of the source files is plain technical English."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {found[0]}"
        for path in hand_written()
        if METAPHORS.search(text_of(path))
        for line, text in _prose(path)
        if (found := METAPHORS.search(text))
    ]

    assert wrong == []


def test_lines_of_the_api_have_the_length_of_the_others() -> None:
    """No tool breaks comments in protos: `buf format` leaves them as they are."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for path in sorted((ROOT / "proto" / "memsvc").rglob("*.proto"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > MOST_LINE_CHARS
    ]

    assert wrong == []
