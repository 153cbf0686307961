"""SearchAll over the wire: memories, files, reports and charts in groups."""

from __future__ import annotations

from google.protobuf.struct_pb2 import Struct

from memsvc.v1 import file_service_pb2 as file_pb
from memsvc.v1 import filters_pb2 as filters_pb
from memsvc.v1 import search_service_pb2 as search_pb
from memsvc.v1 import types_pb2 as types_pb
from tests.support.files import upload
from tests.support.rpc import TIMEOUT, create, search
from tests.support.server_process import Stubs

ALL, MEMORY, FILES, REPORTS, CHARTS = range(1, 6)


def search_all(stubs: Stubs, scope: types_pb.Scope, query: str, **request: object) -> search_pb.SearchAllResponse:
    """Search everywhere, or where *groups* say."""
    fields: dict[str, object] = {"scope": scope, "query": query} | request
    return stubs.search.SearchAll(search_pb.SearchAllRequest(**fields), timeout=TIMEOUT)  # type: ignore[arg-type]  # by name


def told(reply: search_pb.SearchAllResponse) -> dict[str, list[str]]:
    """Return what was found, by group; empty groups are left out."""
    groups = {name: [hit.file.file.name for hit in getattr(reply, name)] for name in ("files", "reports", "charts")}
    groups["memories"] = [hit.memory.content for hit in reply.memories]
    return {name: found for name, found in groups.items() if found}


def stock(stubs: Stubs, scope: types_pb.Scope) -> file_pb.File:
    """Store a memory and files of every group; return the chart."""
    metadata = Struct()
    metadata.update({"标题": "上周销售数据"})
    upload(stubs, scope, b"1", name="sales_2024-q1.xlsx", metadata=metadata)
    upload(stubs, scope, b"2", name="weekly.pdf", category=types_pb.FILE_CATEGORY_REPORT, metadata=metadata)
    chart = upload(stubs, scope, b"3", name="销售趋势.png", category=types_pb.FILE_CATEGORY_CHART)
    create(stubs, scope, f"用户分析了销售数据，见 `chart:{chart.id}`。")
    return chart


def test_everything_is_found_in_groups(stubs: Stubs, scope: types_pb.Scope) -> None:
    """By Chinese and English words of names, categories and metadata; memories as by Search."""
    chart = stock(stubs, scope)

    reply = search_all(stubs, scope, "销售数据", include_files=True)

    memory = f"用户分析了销售数据，见 `chart:{chart.id}`。"
    assert told(reply) == {
        "files": ["sales_2024-q1.xlsx"], "reports": ["weekly.pdf"], "charts": ["销售趋势.png"], "memories": [memory],
    }  # fmt: skip
    assert reply.memories[0].files[0].file == chart
    assert reply.charts[0].file.ref == types_pb.FileRef(category=types_pb.FILE_CATEGORY_CHART, id=chart.id)
    [hit] = search(stubs, scope, "销售数据").hits
    assert (hit.memory.id, hit.score) == (reply.memories[0].memory.id, reply.memories[0].score)
    assert all(0 < one.score <= 1 for one in (*reply.files, *reply.reports, *reply.charts))


def test_only_the_groups_asked_for_are_looked_in(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Alone or together; ALL is all of them, whatever stands beside it."""
    stock(stubs, scope)

    def found(*groups: int) -> set[str]:
        return set(told(search_all(stubs, scope, "销售 report sales", groups=groups)))

    assert found(MEMORY) == {"memories"}
    assert found(FILES) == {"files"}
    assert found(REPORTS, CHARTS) == {"reports", "charts"}
    assert found(REPORTS, ALL) == found() == {"memories", "files", "reports", "charts"}


def test_each_group_has_its_own_limit(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Best first, of equal scores the newest."""
    for number in range(3):
        upload(stubs, scope, b"x", name=f"walrus {number}", category=types_pb.FILE_CATEGORY_REPORT)
        upload(stubs, scope, b"x", name=f"a walrus in words {number}")
        create(stubs, scope, f"The walrus number {number} swims.")

    reply = search_all(stubs, scope, "walrus", limit=2)

    assert told(reply)["files"] == ["a walrus in words 2", "a walrus in words 1"]
    assert told(reply)["reports"] == ["walrus 2", "walrus 1"]
    assert len(reply.memories) == 2


def test_files_of_others_are_never_found(stubs: Stubs, scope: types_pb.Scope) -> None:
    """Neither another user's nor another project's; global ones are found from a project, unless it alone is wanted."""
    user = scope.user_id
    places = {"mine": ("", user), "project": ("web", user), "other": ("web-2", user), "theirs": ("", f"{user}-2")}
    for name, (project, owner) in places.items():
        upload(stubs, types_pb.Scope(user_id=owner, project_id=project), b"x", name=f"walrus {name}")

    web = types_pb.Scope(user_id=user, project_id="web")
    alone = filters_pb.Filter(project_visibility=filters_pb.PROJECT_VISIBILITY_PROJECT)
    assert told(search_all(stubs, scope, "walrus", groups=[FILES])) == {"files": ["walrus mine"]}
    assert told(search_all(stubs, web, "walrus", groups=[FILES])) == {"files": ["walrus project", "walrus mine"]}
    assert told(search_all(stubs, web, "walrus", groups=[FILES], filter=alone)) == {"files": ["walrus project"]}
