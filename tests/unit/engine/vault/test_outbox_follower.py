"""What is stored is shown as files, in order, and no file is written without need."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsvc.domain.errors import BackendUnavailableError
from memsvc.domain.memory import Kind, Layer, Status
from memsvc.domain.scope import Scope
from memsvc.domain.write_requests import WriteOptions
from memsvc.engine.vault import note_export
from memsvc.engine.vault.filesystem import VaultFilesystem, VaultGoneError
from memsvc.engine.vault.outbox_follower import ChangesLostError
from memsvc.text.vault_notes import read_note
from tests.unit.engine.memories.write_path import ADA
from tests.unit.engine.vault.vault_fixture import BASE, Bench, open_bench, place

SAID = Scope("ada", project_id="apollo", session_id="s1")


def stamps(bench: Bench) -> dict[str, tuple[int, int]]:
    """Return which file is at each path, and when it was written."""
    return {path: ((bench.root / path).stat().st_ino, (bench.root / path).stat().st_mtime_ns) for path in bench.files()}


def test_a_memory_becomes_a_file(bench: Bench) -> None:
    """In its place, and the content is in it exactly."""
    made = bench.writes.create("---\nOne.\r\n  ", title="小 王", category="people").memory
    bench.vault.follow()

    assert bench.files() == [place(made)] == [f"{BASE}/long_term/20260206_people_小-王.md"]
    assert read_note((bench.root / place(made)).read_bytes()).content == made.content


def test_what_did_not_change_is_not_written(bench: Bench) -> None:
    """Neither by another look, nor by a change that no file shows."""
    made = bench.writes.create("One.", title="T").memory
    bench.writes.create("Two.", title="U")
    bench.vault.follow()
    before = stamps(bench)

    bench.writes.writing.accesses.note([made.id])
    bench.writes.writing.accesses.flush()
    bench.context.manifest.record(position=0)
    bench.vault.follow()
    bench.synced(is_forced=True)

    assert stamps(bench) == before


def test_a_change_of_the_place_moves_the_file(bench: Bench) -> None:
    """By layer, title or archiving; and back. An edit of the content alone does not."""
    made = bench.writes.create("One.", title="T").memory
    bench.vault.follow()
    for values in ({"title": "New"}, {"layer": Layer.CORE}, {"status": Status.ARCHIVED}, {"status": Status.ACTIVE}):
        after = bench.change(made.id, **values)
        bench.vault.follow()
        assert bench.files() == [place(after)]

    plain = bench.writes.create("Once upon a time.").memory
    bench.vault.follow()
    bench.change(plain.id, content="Twice.")
    bench.vault.follow()
    assert "Twice." in bench.text(place(plain))


def test_deleted_and_withheld_memories_have_no_file(bench: Bench) -> None:
    """It comes back with them."""
    one, two = bench.writes.create("One.").memory, bench.writes.create("Two.").memory
    bench.vault.follow()
    bench.forgo(one.id)
    bench.change(two.id, status=Status.QUARANTINED)
    bench.vault.follow()
    assert bench.files() == []

    bench.writes.writing.revise.restore(ADA, one.id, expected_revision=0, options=WriteOptions())
    bench.vault.follow()
    assert bench.files() == [place(one)]
    bench.forgo(one.id, hard=True)
    bench.vault.follow()
    assert bench.files() == []


def test_memories_of_one_name_have_files_of_their_own(bench: Bench) -> None:
    """Names that differ in case only are one name to some file systems."""
    made = [bench.writes.create(f"Number {n}.", title=title).memory for n, title in enumerate(("Tea", "tea", "TEA"))]
    bench.vault.follow()

    files = bench.files()
    assert len({path.casefold() for path in files}) == 3
    assert {read_note((bench.root / path).read_bytes()).memory_id for path in files} == {one.id for one in made}


def test_a_file_of_somebody_is_never_written_over(bench: Bench) -> None:
    """What lies at the place already stays as it is, and so does what was edited meanwhile."""
    made = bench.writes.create("One.", title="T").memory
    bench.put(place(made), "Mine.\n")
    bench.vault.follow()
    assert bench.text(place(made)) == "Mine.\n"
    [other] = [path for path in bench.files() if path != place(made)]

    bench.put(other, bench.text(other).replace("One.", "By hand."))
    bench.change(made.id, content="By call.")
    bench.vault.follow()
    assert "By hand." in bench.text(other)
    assert any("By call." in bench.text(path) for path in bench.files() if ".conflict-" in path)
    assert bench.memory(made.id).content == "By hand."


def test_a_deletion_keeps_what_was_edited_meanwhile(bench: Bench) -> None:
    """Beside, where it is not looked at any more."""
    made = bench.writes.create("One.", title="T").memory
    bench.vault.follow()
    bench.put(place(made), bench.text(place(made)).replace("One.", "By hand."))
    bench.forgo(made.id)
    bench.vault.follow()

    [kept] = bench.files()
    assert ".conflict-" in kept
    assert "By hand." in bench.text(kept)


def test_what_was_said_is_one_file_a_session(bench: Bench) -> None:
    """It follows what is said, loses what is deleted for good, and edits of it are kept beside."""
    first = bench.writes.create("Hello.", SAID, kind=Kind.MESSAGE, speaker="ada").memory
    bench.writes.create("你好。", SAID, kind=Kind.MESSAGE, speaker="bot")
    bench.vault.follow()
    [path] = bench.files()
    assert path == f"{BASE}/sessions/2026-02/20260206_093000_s1.md"
    assert first.kind is Kind.MESSAGE
    assert "只读" in bench.text(path)
    assert bench.text(path).index("Hello.") < bench.text(path).index("你好。")

    bench.put(path, "edited")
    bench.writes.create("Third.", SAID, kind=Kind.MESSAGE, speaker="ada")
    bench.vault.follow()
    assert "Third." in bench.text(path)
    [beside] = [one for one in bench.files() if one != path]
    assert bench.text(beside) == "edited"

    bench.forgo(first.id, hard=True)
    bench.vault.follow()
    assert "Hello." not in bench.text(path)
    assert "Third." in bench.text(path)


def test_a_crash_between_writing_and_noting_is_harmless(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start finds its own files again."""
    made = bench.writes.create("One.", title="T").memory

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(bench.context.manifest), "record", crash)
        with pytest.raises(KeyboardInterrupt):
            bench.vault.follow()
    before = stamps(bench)
    assert bench.synced() == {}
    bench.vault.follow()

    assert bench.files() == [place(made)]
    assert stamps(bench) == before


def test_the_vault_goes_on_where_it_was(tmp_path: Path) -> None:
    """Another start of the process knows which files are whose."""
    with open_bench(tmp_path) as bench:
        made = bench.writes.create("One.", title="T").memory
        bench.vault.follow()
        before = stamps(bench)
    with open_bench(tmp_path) as bench:
        bench.put(place(made), bench.text(place(made)).replace("One.", "Edited while it was down."))
        assert bench.synced() == {"UPDATED": 1}
        assert bench.memory(made.id).content == "Edited while it was down."
        bench.vault.follow()
        assert bench.files() == list(before)


def test_an_unknown_folder_deletes_nothing(bench: Bench) -> None:
    """A vault that was emptied, or is another one, is begun anew; one that is gone is left alone."""
    made = bench.writes.create("One.", title="T").memory
    bench.vault.follow()
    (bench.root / place(made)).unlink()
    (bench.root / ".memsvc" / "vault.json").unlink()
    with pytest.raises(BackendUnavailableError):
        bench.synced()
    bench.writes.create("Two.")
    with pytest.raises(VaultGoneError):
        bench.vault.follow()

    VaultFilesystem(bench.root).prepare()
    assert bench.synced() == {"WRITTEN": 2}
    assert bench.memory(made.id).status is Status.ACTIVE


def test_sync_goes_both_ways_and_counts(bench: Bench) -> None:
    """A dry run tells the same and changes nothing."""
    kept, edited, gone, moved = (
        bench.writes.create(f"{n}.", title=n).memory for n in ("Kept", "Edited", "Gone", "Moved")
    )
    bench.vault.follow()
    bench.put(place(edited), bench.text(place(edited)).replace("Edited.", "By hand."))
    (bench.root / place(gone)).unlink()
    (bench.root / place(moved)).rename(bench.root / BASE / "long_term" / "elsewhere.md")
    bench.put(f"{BASE}/core/new.md", "New.\n")
    bench.put(f"{BASE}/core/bad.md", "---\nlayer: [\n---\nx\n")
    bench.writes.create("By call.", title="Call")
    expected = {"WRITTEN": 1, "CREATED": 1, "UPDATED": 1, "RENAMED": 1, "DELETED": 1, "INVALID": 1}
    before = stamps(bench)

    assert bench.synced(is_dry=True) == expected
    assert stamps(bench) == before
    assert bench.synced() == expected
    assert bench.synced() == {"INVALID": 1}
    assert bench.memory(gone.id).status is Status.DELETED
    assert bench.memory(kept.id) == kept


def test_a_forced_sync_writes_missing_files_again(bench: Bench) -> None:
    """And what differs from what would be written; edits are taken back before."""
    one, two = bench.writes.create("One.", title="One").memory, bench.writes.create("Two.", title="Two").memory
    bench.vault.follow()
    (bench.root / place(one)).unlink()
    bench.put(place(two), bench.text(place(two)).replace("\n", "\r\n"))

    assert bench.synced(is_forced=True) == {"WRITTEN": 2}
    assert bench.memory(one.id).status is Status.ACTIVE
    assert "\r" not in bench.text(place(two))


def test_sync_of_one_user_leaves_others_alone(bench: Bench) -> None:
    """Files and memories."""
    bench.put("users/ada/core/a.md", "Of Ada.\n")
    bench.put("users/bob/core/b.md", "Of Bob.\n")
    bench.writes.create("By call.", Scope("bob"))

    assert bench.synced(scope=Scope("ada")) == {"CREATED": 1}
    assert bench.synced(scope=Scope("bob")) == {"CREATED": 1, "WRITTEN": 1}


def test_a_forgotten_user_leaves_no_file(bench: Bench) -> None:
    """Whatever it was; the files of others stay."""
    bench.writes.create("One.")
    other = bench.writes.create("Two.", Scope("bob")).memory
    bench.vault.follow()
    bench.put("users/ada/private.txt", "x")
    bench.vault.forget(ADA.owner)

    assert bench.files() == [place(other)]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_user_is_not_forgotten_while_the_vault_is_away(bench: Bench, tmp_path: Path, *, replaced: bool) -> None:
    """The erasure stays begun until the folder that holds the files is back; another vault is not changed."""
    made = bench.writes.create("One.").memory
    bench.vault.follow()
    bench.root.rename(tmp_path / "away")
    if replaced:
        VaultFilesystem(bench.root).prepare()
        bench.put(place(made), "Of another vault.\n")
    with pytest.raises(BackendUnavailableError, match="mount it and call again"):
        bench.vault.forget(ADA.owner)
    if replaced:
        assert bench.files() == [place(made)]
        bench.root.rename(tmp_path / "other")

    (tmp_path / "away").rename(bench.root)
    bench.vault.forget(ADA.owner)
    assert bench.files() == []
    assert bench.context.manifest.count(owner=None) == 0


@pytest.mark.parametrize("linked", ["users", "users/ada"])
def test_forgetting_a_user_follows_no_link(bench: Bench, tmp_path: Path, linked: str) -> None:
    """A link in the place of the user's folder is removed; one above it is an error, and nothing is removed."""
    outside = tmp_path / "outside"
    (outside / "ada").mkdir(parents=True)
    (outside / "ada" / "x.txt").write_text("x")
    link = bench.root / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside if linked == "users" else outside / "ada")
    if linked == "users":
        with pytest.raises(BackendUnavailableError):
            bench.vault.forget(ADA.owner)
    else:
        bench.vault.forget(ADA.owner)
        assert not link.is_symlink()

    assert (outside / "ada" / "x.txt").read_text() == "x"


def test_changes_that_are_no_longer_kept_are_found_by_a_sync(bench: Bench) -> None:
    """A vault that was away for longer than the outbox."""
    bench.writes.create("One.")
    bench.writes.store.feed.mark_applied(bench.writes.store.feed.pending_changes(limit=9))
    bench.writes.store.feed.trim(before=bench.writes.clock.advance(days=1))
    with pytest.raises(ChangesLostError):
        bench.vault.follow()
    assert bench.synced() == {"WRITTEN": 1}
    bench.vault.follow()


def test_many_bytes_are_written_in_parts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little a part holds, no two memories get one path."""
    monkeypatch.setattr(note_export, "GROUP_BYTES", 1)
    for number in range(3):
        bench.writes.create(f"Number {number}.", title="T")
    bench.vault.follow()

    assert len(bench.files()) == 3


@pytest.mark.parametrize("content", ["I live in Lisbon.", "我住在里斯本。"])
def test_a_spoken_fact_is_a_note_of_its_own(bench: Bench, content: str) -> None:
    """Not a line of a conversation: it has a file with its speaker, which a sync leaves as it is."""
    memory = bench.writes.create(content, SAID, speaker="ada").memory
    bench.vault.follow()

    [path] = bench.files()
    assert memory.kind is Kind.FACT
    assert "/sessions/" not in path
    text = bench.text(path)
    assert "speaker: ada" in text
    assert "kind: fact" in text
    bench.vault.follow()
    assert text == bench.text(path)
