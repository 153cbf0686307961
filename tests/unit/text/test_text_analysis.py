"""Text to terms: every script gives terms that a query written another way still meets."""

from __future__ import annotations

import threading
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsvc.text.analysis import (
    IRREGULAR_FORMS,
    MAX_TERM_BYTES,
    STOP_WORDS,
    Token,
    matching_spans,
    query_terms,
    simplified_form,
    term_spans,
    terms,
    tokenize,
)

SAMPLE_ALPHABET = "abcXYZ019 _-./@'’#+,:中文学习的五月かなカナ한국éßﬁＡﾃﾞ𠮷ไทยहि\u0301\n😀"
TEXTS = st.text() | st.text(alphabet=SAMPLE_ALPHABET, max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She was running quickly", ["she", "be", "run", "quick"]),
        ("went", ["go"]),
        ("The children bought books", ["the", "child", "buy", "book"]),
        ("我们学习中文", ["我们", "学习", "中文"]),
        ("图书馆", ["图书", "书馆", "图书馆"]),
        ("用 Docker 部署 v2.0", ["用", "docker", "部署", "2", "0", "2.0"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
        ("は", ["は"]),
        ("한국어", ["한국", "국어"]),
        ("книгами", ["книг"]),
        ("", []),
        ("…!? 。，", []),
    ],
)
def test_each_script_has_its_terms(text: str, expected: list[str]) -> None:
    """Words are stemmed, Han text is segmented for search, kana and hangul become bigrams."""
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't", ["dont"]),
        ("don’t", ["dont"]),
        ("Anna's", ["anna"]),
        ("dogs'", ["dog"]),
        ("O'Brien", ["o", "brien", "obrien"]),
        ("e-mail", ["e", "mail", "email"]),
        ("snake_case", ["snake", "case", "snake_case"]),
        ("getUserName", ["get", "user", "name", "getusernam"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("PDFs", ["pdfs"]),
        ("caféBar", ["cafebar"]),
        ("src/main.py", ["src", "main", "py", "main.py", "src/main.py"]),
        ("v1.2.3", ["1", "2", "3", "1.2.3"]),
        ("1.2.3", ["1", "2", "3", "1.2.3"]),
        ("a.b@c.org", ["a", "b", "a.b", "c", "org", "c.org", "a.b@c.org"]),
        ("1,234.50", ["1234.50"]),
        ("C++ and C#", ["c++", "and", "c#"]),
        ("8th", ["8"]),
        ("2023-05-08", ["2023", "05", "08", "20230508"]),
    ],
)
def test_compounds_give_their_parts_and_the_whole(text: str, expected: list[str]) -> None:
    """Identifiers, paths, versions, addresses and contractions are found by part and as written."""
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Café", "cafe\u0301"),
        ("ｆｕｌｌ", "full"),
        ("ﾃﾞｰﾀ", "データ"),
        ("한국", unicodedata.normalize("NFD", "한국")),
        ("STRASSE", "straße"),
        ("email", "e-mail"),
        ("⽂字", "文字"),
    ],
)
def test_equivalent_spellings_share_a_term(left: str, right: str) -> None:
    """Unicode forms, case, width and hyphens do not keep two spellings apart."""
    assert set(terms(left)) & set(terms(right))


def test_tokens_point_into_the_original_text() -> None:
    """Offsets count characters of the text as given, whatever normalisation does."""
    text = "我 went to ﾃﾞｰﾀ 𠮷 café"

    found = {token.term: text[token.start : token.end] for token in tokenize(text)}

    assert found == {"我": "我", "go": "went", "to": "to", "デー": "ﾃﾞｰ", "ータ": "ｰﾀ", "𠮷": "𠮷", "cafe": "café"}


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("我对虾过敏", "虾"),
        ("我對蝦和蟹過敏", "虾"),
        ("白灼对虾", "虾"),
        ("他对奶不耐受", "奶"),
        ("我妈对桃过敏，对光也过敏", "桃"),
        ("小明對光過敏", "光"),
    ],
)
def test_what_an_allergy_is_to_is_a_term(text: str, term: str) -> None:
    """The segmenter takes it and the word before it for one; tokens say where it is."""
    assert terms(text).count(term) == 1
    assert [one.term for one in tokenize(text)] == terms(text)
    [token] = [one for one in tokenize(text) if one.term == term]
    assert simplified_form(text[token.start : token.end]) == term


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我对象过敏了", ["我", "对象", "过敏", "了"]),
        ("我对花生过敏", ["我", "对", "花生", "过敏"]),
        ("对面的人过敏", ["对面", "的", "人", "过敏"]),
        ("对方很敏感", ["对方", "很", "敏感"]),
        ("对话很长", ["对话", "很长"]),
        ("相对湿度", ["相对", "湿度", "相对湿度"]),
    ],
)
def test_other_words_with_the_same_character_stay_whole(text: str, expected: list[str]) -> None:
    """A partner, the other side and a conversation are found by their own words."""
    assert terms(text) == expected


def test_long_han_text_without_punctuation_keeps_every_character() -> None:
    """A Chinese sentence of any length is indexed, not dropped as one long token."""
    sentence = "我们昨天在北京大学图书馆讨论了机器学习" * 100

    covered = {place for token in tokenize(sentence) for place in range(token.start, token.end)}

    assert covered == set(range(len(sentence)))


def test_long_words_stay_apart_within_the_limit() -> None:
    """Overlong words keep a digest, so that equal ones meet and others do not."""
    left, right = terms("ა" * 60), terms("ა" * 59 + "ბ")

    assert left == terms("ა" * 60)
    assert left != right
    assert all(len(term.encode()) <= MAX_TERM_BYTES for term in left + right)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What did Caroline say about the school?", ["carolin", "say", "school"]),
        ("我昨天在哪里吃的饭？", ["昨天", "吃", "饭"]),
        ("Docker 是怎么部署的", ["docker", "部署"]),
        ("what is it", ["what", "be", "it"]),
        ("什么时候", ["什么", "时候"]),
        ("school, School; schools", ["school"]),
        ("in May", ["may"]),
        ("", []),
    ],
)
def test_query_terms_leave_out_stop_words_unless_nothing_remains(query: str, expected: list[str]) -> None:
    """A query is its content words, once each and in order; without any it keeps what it has."""
    assert query_terms(query) == expected


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_terms_and_tokens_agree(text: str) -> None:
    """The fast path gives the same terms; tokens lie inside the text; terms suit a whitespace tokenizer."""
    tokens = tokenize(text)

    assert [token.term for token in tokens] == terms(text)
    for token in tokens:
        assert 0 <= token.start < token.end <= len(text)
        assert token.term
        assert token.term.split() == [token.term]
        assert len(token.term.encode()) <= MAX_TERM_BYTES


@settings(deadline=None)
@given(st.text(alphabet="abcXYZ019 _-./@'#+,:", max_size=60))
def test_ascii_text_has_the_same_terms_inside_other_text(text: str) -> None:
    """The ASCII fast path finds what the general path finds."""
    assert terms(text) == terms(text + " 😀")


@settings(deadline=None)
@given(TEXTS)
def test_slice_of_a_token_contains_its_term(text: str) -> None:
    """Analysing the slice that a token points to gives the token's term again, bigrams and Han words included."""
    for token in tokenize(text):
        slice_terms = terms(text[token.start : token.end])
        assert token.term in slice_terms or token.term in "".join(slice_terms)


@settings(deadline=None)
@given(TEXTS, st.sets(st.sampled_from(["abc", "中文", "学习", "of", "1", "カナ"])))
def test_matching_spans_are_the_wanted_term_spans(text: str, wanted: set[str]) -> None:
    """Skipping text that cannot match changes nothing."""
    assert matching_spans(text, wanted) == [span for span in term_spans(text) if span[0] in wanted]


def test_analysis_is_safe_in_threads() -> None:
    """Threads that analyse at the same time get what one thread gets."""
    text = "the runners were running to 北京大学图书馆 with книгами " * 20
    expected = terms(text)
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(terms(text))) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [expected] * 8


def test_tables_are_lower_case_and_hold_both_languages() -> None:
    """The tables match folded words; bases are no forms themselves; months and content words are no stop words."""
    assert all(form == form.lower() for form in IRREGULAR_FORMS)
    assert not set(IRREGULAR_FORMS.values()) & set(IRREGULAR_FORMS)
    assert {"the", "what", "who", "的", "什么", "哪里"} <= STOP_WORDS
    assert not {"may", "school", "学校", "喜欢", "工作"} & STOP_WORDS


def test_token_is_a_value() -> None:
    """Tokens compare by value."""
    assert tokenize("go") == [Token("go", 0, 2)]
