"""Names of files that differ only in case or in the form of letters, on a file system that distinguishes them."""

from __future__ import annotations

import pytest

from memsvc.domain.memory import Status
from memsvc.domain.vault import VaultAction
from tests.unit.engine.vault.vault_fixture import BASE, Bench

NOTE = f"{BASE}/long_term/Tea.md"
SPELLINGS = pytest.mark.parametrize(
    ("one", "other"), [("Tea", "tea"), ("Strasse", "Straße"), ("caf\u00e9", "cafe\u0301"), ("茶Tea", "茶TEA")]
)


def _paths(*stems: str) -> list[str]:
    return [f"{BASE}/long_term/{stem}.md" for stem in stems]


@pytest.mark.parametrize("is_first", [True, False])
@SPELLINGS
def test_a_renamed_file_keeps_its_memory(bench: Bench, one: str, other: str, *, is_first: bool) -> None:
    """Whichever of the two paths is imported first, and until the next synchronisation."""
    before, after = _paths(one, other)
    made = bench.took(bench.put(before, "Green tea.\n")).memory_id
    (bench.root / before).rename(bench.root / after)
    for path in (after, before) if is_first else (before, after):
        bench.take(path)

    assert bench.memory(made).status is Status.ACTIVE
    assert bench.synced() == {}
    bench.put(after, bench.text(after).replace("Green", "Black"))
    assert bench.take(after) is VaultAction.UPDATED
    assert bench.memory(made).content == "Black tea."
    assert bench.files() == [after]
    (bench.root / after).unlink()
    assert bench.take(after) is VaultAction.DELETED


@pytest.mark.parametrize("is_together", [True, False])
@SPELLINGS
def test_two_files_do_not_overwrite_each_other(bench: Bench, one: str, other: str, *, is_together: bool) -> None:
    """The second is reported with the name of the first, until it is renamed."""
    first, second = _paths(one, other)
    paths = [bench.put(path, f"Text of {number}.\n") for number, path in enumerate((first, second))]
    taken = list(bench.taking.take_all(paths)) if is_together else [bench.took(path) for path in paths]
    bench.vault.follow()

    assert [one.action for one in taken] == [VaultAction.CREATED, VaultAction.INVALID]
    assert first in taken[1].detail
    for _ in range(2):
        assert bench.synced() == {"INVALID": 1}
    assert bench.text(second) == "Text of 1.\n"
    assert [memory.content for memory in bench.memories()] == ["Text of 0."]

    [renamed] = _paths("other")
    (bench.root / second).rename(bench.root / renamed)
    assert bench.take(renamed) is VaultAction.CREATED
    assert bench.take(second) is VaultAction.UNCHANGED
    assert bench.synced() == {}


@pytest.mark.parametrize(
    ("known", "folder", "proper"),
    [
        ("users/ada", "users/Ada", "users/!ada"),
        ("users/ada/projects/apollo", "users/ada/projects/Apollo", "users/ada/projects/!apollo"),
        ("tenants/acme/users/ada", "tenants/Acme/users/ada", "tenants/!acme/users/ada"),
    ],
)
def test_a_folder_of_another_spelling_is_not_that_of_the_user(
    bench: Bench, known: str, folder: str, proper: str
) -> None:
    """The file of the user Ada does not become a memory of the user ada; the folder of Ada is named."""
    assert bench.take(bench.put(f"{known}/core/a.md", "About ada.\n")) is VaultAction.CREATED
    other = bench.put(f"{folder}/core/b.md", "A secret of Ada.\n")

    taken = bench.took(other)
    assert taken.action is VaultAction.INVALID
    assert f"is {proper}." in taken.detail
    assert [memory.content for memory in bench.memories()] == ["About ada."]
    assert bench.take(bench.put(f"{proper}/core/b.md", "A secret of Ada.\n")) is VaultAction.CREATED


def test_a_removed_file_leaves_its_name_to_the_other(bench: Bench) -> None:
    """The file that was reported becomes that of the memory."""
    first, second = _paths("README", "readme")
    made = bench.took(bench.put(first, "One.\n")).memory_id
    bench.take(bench.put(second, "Two.\n"))
    (bench.root / first).unlink()

    taken = bench.took(first)
    assert (taken.path, taken.action, taken.memory_id) == (second, VaultAction.UPDATED, made)
    assert bench.memory(made).content == "Two."
    assert bench.synced() == {}


@pytest.mark.parametrize(("one", "other"), [("Tea", "TEA"), ("strasse", "straße")])
def test_a_title_of_another_spelling_renames_the_file(bench: Bench, one: str, other: str) -> None:
    """The earlier title does not come back from the earlier file."""
    made = bench.writes.create("Green tea.", title=one).memory
    bench.vault.follow()
    bench.change(made.id, title=other)
    bench.vault.follow()

    assert [path.rpartition("_")[2] for path in bench.files()] == [f"{other}.md"]
    assert bench.synced() == {}
    assert bench.memory(made.id).title == other
