"""Near-duplicates, by words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.near_duplicates import SHORT, Shingles, group_duplicates, is_near_duplicate

LONG = (
    "The weekly meeting of the platform team takes place in the large room with the green door and the round table, "
    "where all of us sit together and talk about what was done and about what comes next"
)
LONG_ZH = (
    "平台团队的例会总是在走廊尽头那间大会议室举行，所有成员参加会议时要带着自己的笔记本和记录，主持人会逐个询问进展情况"
)
WORDS = st.lists(st.sampled_from("abcdefgh12"), max_size=8)


def same(one: str, other: str) -> bool:
    """Return whether two texts say the same, whichever comes first."""
    there, back = (is_near_duplicate(Shingles.of(a), Shingles.of(b), 0.85) for a, b in ((one, other), (other, one)))
    assert there == back
    return there


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The otter sleeps at 8.", "the otter sleeps, at 8!"),
        ("An otter", "otter"),
        ("Answer in short sentences.", "answer in short sentences"),
        ("水獭在河里睡觉。", "水獭在河里睡觉！"),
        (f"{LONG}.", f"{LONG}!"),
        (f"{LONG} at 9.", f"{LONG} usually at 9"),
        (f"{LONG_ZH}。", f"{LONG_ZH}！"),
        (f"{LONG_ZH}。", f"{LONG_ZH}啊。"),
    ],
)
def test_small_differences_make_no_other_statement(one: str, other: str) -> None:
    """Signs, cases and articles; a word among many."""
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Jerry reports to Tom.", "Tom reports to Jerry."),
        ("She flies from Oslo.", "She flies to Oslo."),
        ("He works at the mill.", "He worked at the mill."),
        (
            "Choir practice is on Monday evening in the old hall.",
            "Choir practice is on Tuesday evening in the old hall.",
        ),
        ("Rent is due in March.", "Rent is due in May."),
        ("He has two cats.", "He has three cats."),
        ("Is it raining?", "It is raining."),
        ("I write C.", "I write C++."),
        ("It has -5 degrees.", "It has 5 degrees."),
        ("👍", "👎"),
        ("Anna lives in Lisbon.", "Anna lives in Porto."),
        ("下午四点开会", "下午三点开会"),
        ("星期一去游泳", "星期二去游泳"),
        ("小明向小红汇报", "小红向小明汇报"),
        ("我喜欢咖啡", "我不喜欢咖啡"),
        ("他住在北京", "他住在上海"),
        (f"{LONG} at 9.", f"{LONG} at 10."),
        (f"{LONG} from 3 to 4.", f"{LONG} from 4 to 3."),
        (f"{LONG} at nine.", f"{LONG} at ten."),
        (f"{LONG} on Monday.", f"{LONG} on Tuesday."),
        (f"{LONG} in March.", f"{LONG} in May."),
        (f"{LONG}; Jerry reports to Tom.", f"{LONG}; Tom reports to Jerry."),
        (f"{LONG}. Jerry reports to Tom.", f"{LONG}. Tom reports to Jerry."),
        (f"{LONG}, as Anna says.", f"{LONG}, as Berta says."),
        (f"{LONG}.", f"{LONG}, not today."),
        (f"{LONG}.", LONG.replace("takes", "never takes")),
        (f"{LONG_ZH}。", f"{LONG_ZH}，明天不举行。"),
        (f"{LONG_ZH}，3 点。", f"{LONG_ZH}，4 点。"),
        (f"{LONG_ZH}，下午四点。", f"{LONG_ZH}，下午三点。"),
        (f"{LONG_ZH}，周一。", f"{LONG_ZH}，周五。"),
        ("", ""),
    ],
)
def test_another_statement_is_one(one: str, other: str) -> None:
    """However many words are the same: numbers in any writing, days, months, negations, names, and who does what."""
    assert not same(one, other)


def test_what_goes_beyond_the_words_counts() -> None:
    """Different marks and different rests make other statements; a mark that is not known makes none."""
    plain, ann, bo = Shingles.of("I like tea."), *(Shingles.of("I like tea.", marks=("", one)) for one in ("Ann", "Bo"))
    rest = Shingles.of("I like tea.", beyond="x")

    assert is_near_duplicate(plain, ann, 1.0)
    assert is_near_duplicate(ann, ann, 1.0)
    assert not is_near_duplicate(ann, bo, 0.1)
    assert not is_near_duplicate(plain, rest, 0.1)


@given(st.lists(WORDS, max_size=8), st.sampled_from([0.5, 0.85, 1.0]), st.booleans())
def test_collapsing_loses_nothing(texts: list[list[str]], threshold: float, is_long: bool) -> None:  # noqa: FBT001
    """Every place is in one group, groups begin with their best, and kept ones are no near-duplicates."""
    more = "x y z " * SHORT if is_long else ""
    sayings = [Shingles.of(more + " ".join(words)) for words in texts]

    groups = group_duplicates(sayings, threshold)

    kept = [group[0] for group in groups]
    assert sorted(place for group in groups for place in group) == list(range(len(texts)))
    assert kept == sorted(kept)
    assert all(group == sorted(group) for group in groups)
    assert not any(
        is_near_duplicate(sayings[one], sayings[other], threshold) for one in kept for other in kept if one < other
    )
