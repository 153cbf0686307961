"""A store keeps what the vault knows of its files, and finds what the files do not show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from memsvc.domain.clock import to_micros
from memsvc.domain.index_entries import ChangeAction
from memsvc.domain.memory import Kind, Memory, Status
from memsvc.domain.scope import Scope
from memsvc.domain.user_data import Erasure, owner_digest
from memsvc.domain.vault import VaultCopy, VaultEntry
from memsvc.domain.vault_layout import path_key
from memsvc.ports.features import Transcript, VaultState
from memsvc.ports.metadata import MetadataStore
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from memsvc.testing.store_harness import OWNER, StoreSeams, insert, purge, revise

OTHER = Scope("bob").owner


def entry(path: str, memory: Memory | None = None, /, **fields: object) -> VaultEntry:
    """Return the entry of a file."""
    plain = VaultEntry(path, OWNER, "", "d" * 64, 1, "anchor", memory.id if memory is not None else path)
    return replace(plain, **fields)  # type: ignore[arg-type]  # fields of the entry


class StoreVaultContract(StoreSeams):
    """Part of the store's contract."""

    def test_vault_begins_and_goes_on(self, store: MetadataStore) -> None:
        """There is no vault until one begins; to begin another forgets the entries of the first."""
        assert store.vault.state() is None

        store.vault.begin("one")
        store.vault.record([entry("a.md")], position=7)
        assert store.vault.state() == VaultState("one", 7)
        assert store.vault.count(owner=None) == 1

        store.vault.begin("two")
        assert store.vault.state() == VaultState("two", 0)
        assert store.vault.page(owner=None, after="", limit=9) == []

    def test_vault_copies_are_no_entries(self, store: MetadataStore) -> None:
        """They are found by their path, and end with an entry of that path, a removal, or another vault."""
        one, other, foreign = (
            VaultCopy(path, owner, "web", "d" * 64, "id of another memory")
            for path, owner in (("a/É.md", OWNER), ("b.md", OWNER), ("c.md", OTHER))
        )
        store.vault.begin("v")
        store.vault.record_copies([one, other, foreign])
        assert store.vault.copy_at("A/e\u0301.MD") == one
        assert store.vault.copies(owner=OWNER, after="", limit=9) == [one, other]
        assert store.vault.copies(owner=None, after=path_key(one.path), limit=1) == [other]
        assert store.vault.count(owner=None) == 0
        assert store.vault.at([one.path]) == store.vault.of([one.memory_id]) == {}

        changed = replace(one, digest="e" * 64)
        store.vault.record_copies([changed], removed=[foreign.path])
        assert store.vault.copies(owner=None, after="", limit=9) == [changed, other]
        store.vault.record([entry(other.path)])
        assert store.vault.copies(owner=None, after="", limit=9) == [changed]
        store.vault.begin("w")
        assert store.vault.copy_at(one.path) is None

    def test_vault_entries_are_found_by_path_memory_session_and_digest(self, store: MetadataStore) -> None:
        """Each of them comes back whole; paths that differ in case or composition only are one."""
        one = entry("Users/É.md", anchor="x/y", revision=1 << 40)
        said = entry("s.md", memory_id="", session_id="s1", project_id="web", digest="e" * 64)
        store.vault.begin("v")
        store.vault.record([one, said])

        assert store.vault.at(["users/e\u0301.MD", "none.md"]) == {path_key("users/é.md"): one}
        assert store.vault.of([one.memory_id, "", "none"]) == {one.memory_id: one}
        assert store.vault.of_session(Scope("ada", "web", session_id="s1")) == said
        assert store.vault.of_session(Scope("ada", "", session_id="s1")) is None
        assert store.vault.of_session(Scope("bob", "web", session_id="s1")) is None
        assert store.vault.ids_with_content(OWNER, "e" * 64, limit=9) == [said]
        assert store.vault.ids_with_content(OTHER, "e" * 64, limit=9) == []

    def test_vault_entry_takes_the_place_of_another(self, store: MetadataStore) -> None:
        """A path, a memory and a transcript have one entry each; removed paths have none."""
        store.vault.begin("v")
        said = entry("s1.md", memory_id="", session_id="s", digest="1")
        store.vault.record([entry("a.md"), entry("b.md"), entry("c.md"), said])
        store.vault.record(
            [entry("a.md", memory_id="new"), entry("b2.md", memory_id="b.md"), replace(said, path="s2.md")],
            removed=["C.md", "none.md"],
        )

        assert [one.path for one in store.vault.page(owner=None, after="", limit=9)] == ["a.md", "b2.md", "s2.md"]
        assert store.vault.of(["a.md", "c.md"]) == {}

    def test_vault_entries_are_paged_by_path(self, store: MetadataStore) -> None:
        """Of one owner, or of all owners."""
        store.vault.begin("v")
        store.vault.record([entry("c.md"), entry("a.md"), entry("b.md", owner=OTHER)])

        assert [one.path for one in store.vault.page(owner=None, after="a.md", limit=1)] == ["b.md"]
        assert [one.path for one in store.vault.page(owner=OWNER, after="a.md", limit=9)] == ["c.md"]
        assert store.vault.count(owner=OTHER) == 1

    def test_vault_is_behind_until_the_entry_says_the_revision(self, store: MetadataStore) -> None:
        """Lists memories that lack a file of their revision, and files of memories that should have none."""
        store.vault.begin("v")
        new, shown, changed = insert(store, *(factories.memory(f"Number {one}.") for one in range(3)))
        gone, held, hidden = insert(
            store,
            factories.memory("Four.", status=Status.DELETED),
            factories.memory("Five.", status=Status.QUARANTINED),
            factories.memory("Six.", status=Status.QUARANTINED),
        )
        other, _ = insert(
            store,
            factories.memory("Of Bob.", user_id="bob"),
            factories.memory("Hi.", kind=Kind.MESSAGE, session_id="s"),
        )
        store.vault.record([entry("1", shown), entry("2", changed), entry("3", gone), entry("4", held)])
        changed = revise(store, changed, title="T")

        assert store.vault.behind(owner=OWNER, after_row=0, limit=9) == [new, changed, gone, held]
        assert store.vault.behind(owner=None, after_row=held.row, limit=9) == [other]
        assert store.vault.behind(owner=None, after_row=new.row, limit=1) == [changed]
        assert hidden not in store.vault.behind(owner=None, after_row=0, limit=99)
        every = store.vault.behind(owner=OWNER, after_row=0, limit=9, every=True)
        assert every == [new, shown, changed, gone, held]

    def test_vault_finds_entries_of_purged_memories(self, store: MetadataStore) -> None:
        """Those of transcripts are of no memory."""
        store.vault.begin("v")
        kept, lost = insert(store, factories.memory("One."), factories.memory("Two."))
        store.vault.record([entry("1", kept), entry("2", lost), entry("3", memory_id="", session_id="s")])
        purge(store, lost)

        assert [one.path for one in store.vault.entries_without_memory(owner=None, after="", limit=9)] == ["2"]
        assert store.vault.entries_without_memory(owner=OTHER, after="", limit=9) == []
        assert store.vault.entries_without_memory(owner=None, after="2", limit=9) == []

    def test_vault_finds_where_purged_memories_were(self, store: MetadataStore) -> None:
        """By id; existing memories and unknown ids are left out."""
        kept, one, other = insert(
            store,
            factories.memory("One."),
            factories.memory("Two.", project_id="web"),
            factories.memory("3", user_id="bob"),
        )
        purge(store, one, other)

        assert store.vault.places_of_purged([kept.id, one.id, "none"]) == {(OWNER, "web")}
        assert store.vault.places_of_purged([other.id]) == {(OTHER, "")}
        assert store.vault.places_of_purged([]) == set()

    def test_vault_reads_memories_of_every_owner_and_status(self, store: MetadataStore) -> None:
        """As they are now; unknown rows are left out."""
        one, other = insert(store, factories.memory("One."), factories.memory("Two.", user_id="bob"))
        one = revise(store, one, ChangeAction.DELETED, status=Status.DELETED)

        assert sorted(store.vault.present([one.row, other.row, 99]), key=lambda memory: memory.row) == [one, other]
        assert store.vault.present([]) == []

    def test_vault_lists_sessions_in_which_something_was_said(self, store: MetadataStore) -> None:
        """By the row of the first message; the stamp grows with every change of one of them."""
        said = {"kind": Kind.MESSAGE, "session_id": "s1"}
        first, _, third = insert(
            store,
            factories.memory("One.", **said),
            factories.memory("Two.", session_id="s1"),
            factories.memory("Hi.", **said),
        )
        [other] = insert(store, factories.memory("Hi.", kind=Kind.MESSAGE, session_id="s1", project_id="web"))
        later = NOW + timedelta(seconds=3)
        revise(store, third, update_time=later)

        mine, web = store.vault.transcripts(owner=OWNER, after_row=0, limit=9)
        assert mine == Transcript(Scope("ada", session_id="s1"), NOW, to_micros(later), first.row)
        assert (web.scope, web.row) == (Scope("ada", "web", session_id="s1"), other.row)
        assert store.vault.transcripts(owner=None, after_row=first.row, limit=9) == [web]
        assert store.vault.transcripts(owner=OTHER, after_row=0, limit=9) == []

    def test_vault_entries_go_with_their_owner(self, store: MetadataStore) -> None:
        """An erasure takes them, and those of others stay."""
        store.vault.begin("v")
        store.vault.record([entry("a.md"), entry("b.md", owner=OTHER)])
        with store.transaction() as transaction:
            transaction.begin_erasure(Erasure(owner_digest(OWNER), OWNER, "", NOW))
            transaction.erase_rest(OWNER, limit=99)

        assert [one.path for one in store.vault.page(owner=None, after="", limit=9)] == ["b.md"]

    def test_vault_outlives_the_store(self, store: MetadataStore, reopen: Callable[[], MetadataStore]) -> None:
        """State and entries are there when the store is opened again."""
        store.vault.begin("v")
        store.vault.record([entry("a.md")], position=3)
        again = reopen()

        assert again.vault.state() == VaultState("v", 3)
        assert again.vault.page(owner=None, after="", limit=9) == [entry("a.md")]
