"""References lead to files, and to where these are reached."""

from __future__ import annotations

from pathlib import Path

from memsvc.domain.files import FileCategory, UrlTemplates
from memsvc.domain.memory import FileRef
from memsvc.domain.scope import Scope
from memsvc.engine.files.service import FileRefResolver, ResolvedRef
from memsvc.testing import factories
from memsvc.testing.factories import NOW
from tests.unit.engine.memories.write_path import open_desk

TEMPLATES = UrlTemplates("https://files.test/{category}/{id}/download", "/p/{id}/{name}")


def test_references_lead_to_files_and_urls(tmp_path: Path) -> None:
    """Those of the project and the global ones; expired ones, others' and unknown ones to nothing."""
    with open_desk(tmp_path) as desk:
        places = {"mine": "apollo", "global": "", "other": "web"}
        files = {name: factories.file(name=name, project_id=project) for name, project in places.items()}
        files["over"] = factories.file(name="over", expire_time=NOW)
        files["theirs"] = factories.file(name="theirs", user_id="bob")
        with desk.store.transaction() as transaction:
            files = {name: transaction.files.insert(file) for name, file in files.items()}
        refs = {name: FileRef("upload", file.id) for name, file in files.items()}
        wrong = FileRef("chart", files["mine"].id)

        resolving = FileRefResolver(desk.store.files, TEMPLATES, desk.clock)
        found = resolving.resolve(Scope("ada", "apollo"), [*refs.values(), wrong, refs["mine"]])

        mine = files["mine"]
        url = f"https://files.test/upload/{mine.id}/download"
        assert found[refs["mine"]] == ResolvedRef(refs["mine"], mine, url, f"/p/{mine.id}/mine")
        assert found[refs["global"]].file == files["global"]
        nothing = [refs["other"], refs["theirs"]]
        assert [found[ref] for ref in nothing] == [ResolvedRef(ref) for ref in nothing]
        assert found[wrong] == ResolvedRef(wrong, fault="is of category upload")
        assert found[refs["over"]] == ResolvedRef(refs["over"], fault=f"expired at {NOW.isoformat()}")
        assert mine.category is FileCategory.UPLOAD


def test_without_templates_there_are_no_urls(tmp_path: Path) -> None:
    """And nothing is asked for when no references are given."""
    with open_desk(tmp_path) as desk:
        with desk.store.transaction() as transaction:
            file = transaction.files.insert(factories.file())
        resolving = FileRefResolver(desk.store.files, UrlTemplates(), desk.clock)

        assert resolving.of(file) == ResolvedRef(FileRef("upload", file.id), file)
        assert resolving.resolve(Scope("ada"), []) == {}
