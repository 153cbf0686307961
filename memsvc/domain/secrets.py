"""Secrets in texts: found by their shape, and replaced by a word that says what stood there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from memsvc.domain import limits
from memsvc.domain.memory import Json, Keyword, normal_keywords
from memsvc.domain.write_requests import Draft, Redaction

T = TypeVar("T")

LEAST_CHARS = 7
"""No secret with its name is shorter, so a shorter text is not looked at."""
_CARD_DIGITS = range(13, 20)
_PASSWORDS = (
    r"passwd|password|passphrase|passcode|pwd|\bpw|(?:\bwi-?fi|\bwlan|\bvpn|\brouter)\s{0,3}的?\s{0,3}pass"
    r"|密码|密碼|口令|验证码|驗證碼"
)
_NAMED = (
    rf"(?:(?:api|secret|access|private)[ _-]?key(?:[ _-]?id)?|secret|token|密钥|密鑰|金鑰|令牌|權杖|{_PASSWORDS})"
    # "the password for the router is"
    r"(?:\s(?:for|of|to|on)\s[\w'./ -]{1,30}?(?:\s(?=is\b|was\b)|(?=[:：]\s)))?[\"'`”]?"
)
_EQUALS = (
    r"\s{0,3}(?:[:=：＝]|=>|\b(?:is|was)\b|(?:就|现在|現在|已[经經]?)?(?:是|为|為|叫)|(?:已[经經]?)?(?:改|换|換|设|設|设置|設置|設定)[成为為])"
    r"\s{0,3}[\"'`“「『]?"
)
_VALUE = r"[!#-&(-+\--:=?-_a-~]"
"""A character of a password: printable ASCII other than quotation marks, commas and what encloses."""
_NO_PASSWORDS = frozenset(
    {
        "string", "required", "optional", "hidden", "number", "undefined", "boolean", "secret", "password", "incorrect",
        "invalid", "changed", "missing",
    }
)  # fmt: skip
"""Words that follow "password:" in programs and messages without being a password."""
_METHOD = re.compile(r"(?i)(?:sha|md|argon|pbkdf|oauth|base|utf|http|v|bcrypt|scrypt)-?[0-9][0-9a-z.]*$")
"""What is said of passwords, and is none: sha256, argon2id, v2.1."""
_DIGITS = re.compile(r"[0-9][0-9 -]{11}")
_FIELDS = ("content", "title", "summary", "source", "speaker", "category", "tags", "keywords", "metadata")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Pattern of a sort of secret; the group "secret", if there is one, is the part that is replaced.

    Attributes:
        marks: One of these, in lower case, occurs in every text that holds such a secret. None: digits do.
    """

    kind: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[str], bool] = lambda _: True


def _shape(kind: str, marks: str, pattern: str, holds: Callable[[str], bool] = lambda _: True) -> _Shape:
    """Return a shape. Its words end where ASCII ends: Chinese has no spaces, so a key often touches its characters."""
    return _Shape(kind, tuple(marks.split()), re.compile(pattern.replace(r"\b", r"(?a:\b)")), holds)


def _is_placeholder(secret: str) -> bool:
    """Return whether a value is a placeholder, or was replaced already."""
    is_masked = set(secret) <= set("*xX.•-_")
    return is_masked or secret.startswith(("${", "$(", "$PW", "$PASS", "{{", "<", "[REDACTED", "%(", "os.", "process."))


def _is_varied(secret: str) -> bool:
    """Return whether a value looks chosen or made, and not like a word, a variable or a placeholder."""
    if _is_placeholder(secret):
        return False
    kinds = sum(bool(re.search(sort, secret)) for sort in (r"[a-z]", r"[A-Z]", r"[0-9]", r"[^A-Za-z0-9]"))
    return kinds >= 2 and bool(re.search(r"[0-9]|[^\w.()\[\]'-]", secret))  # noqa: PLR2004 - two sorts of characters


def _mixes_letters_and_digits(secret: str) -> bool:
    """Return whether a value after a mere space is a password: it has letters and digits and names no method."""
    if _is_placeholder(secret) or _METHOD.match(secret):
        return False
    return bool(re.search(r"[A-Za-z]", secret) and re.search(r"[0-9]", secret))


def luhn_holds(digits: str) -> bool:
    """Return whether the check digit of a card number is right."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value  # noqa: PLR2004 - the sum of two digits
    return total % 10 == 0


def _is_card(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    return len(digits) in _CARD_DIGITS and digits[0] in "23456" and len(set(digits)) > 1 and luhn_holds(digits)


# Every pattern is linear: no repetition within a repetition, and bounded look at what follows.
_SHAPES = (
    _shape(
        "private-key",
        "private",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:\s+[A-Za-z0-9+/=]{12,})*)",
    ),
    _shape("jwt", "eyj", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _shape("memsvc-key", "memsvc_", r"\bmemsvc_[0-9a-f]{20}_[A-Za-z0-9]{49}"),
    _shape("aws-access-key", "akia asia agpa aroa aida", r"\b(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z2-7]{16}\b"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    _shape("github-token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{30,}"),
    _shape("gitlab-token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{18,}"),
    _shape("slack-token", "xox xapp-", r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,})"),
    _shape(
        "slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9_/-]{20,})"
    ),
    _shape("google-api-key", "aiza", r"\bAIza[A-Za-z0-9_-]{35}"),
    _shape("google-oauth", "ya29. gocspx-", r"\b(?:ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})"),
    _shape("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _shape("stripe-key", "whsec_", r"\bwhsec_[A-Za-z0-9]{16,}"),
    _shape("api-key", "sk-", r"\bsk-[A-Za-z0-9][A-Za-z0-9_-]{18,}"),
    _shape("npm-token", "npm_", r"\bnpm_[A-Za-z0-9]{30,}"),
    _shape("pypi-token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{50,}"),
    _shape("huggingface-token", "hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    _shape("sendgrid-key", "sg.", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _shape("telegram-token", ":aa", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}"),
    _shape("aliyun-access-key", "ltai", r"\bLTAI[A-Za-z0-9]{12,30}\b"),
    _shape("tencent-secret-id", "akid", r"\bAKID[A-Za-z0-9]{13,40}\b"),
    _shape("azure-account-key", "accountkey", r"(?i:AccountKey)=(?P<secret>[A-Za-z0-9+/]{40,}={0,2})"),
    _shape(
        "url-password",
        "://",
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/?#@\[\]]{0,100}:(?P<secret>[^\s/@]{1,200})@",
        lambda secret: not secret.startswith(("${", "<", "[REDACTED")),
    ),
    _shape(
        "bearer-token",
        "bearer basic",
        r"(?i:\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic)|\bbearer)\s{1,3}"
        r"(?P<secret>[A-Za-z0-9._~+/-]{16,}={0,2})",
        _is_varied,
    ),
    _shape(
        "password",
        "key secret token pass pw 密码 密碼 口令 验证码 驗證碼 密钥 密鑰 金鑰 令牌 權杖",
        rf"(?i:{_NAMED}{_EQUALS})(?P<secret>[\u4e00-\u9fff]{{0,6}}{_VALUE}{{6,200}})",
        _is_varied,
    ),
    _shape(
        "password",
        "pass pw 密码 密碼 口令 验证码 驗證碼",
        rf"(?i:(?:{_PASSWORDS})[\"'`”]?\s{{0,3}}[:=：＝]\s{{0,3}})[\"'`“]?"
        r"(?P<secret>[A-Za-z0-9_-]{6,64})(?![A-Za-z0-9_.(\[])",
        lambda secret: secret.lower() not in _NO_PASSWORDS,
    ),
    _shape(
        "password",
        "pass pw 密码 密碼 口令 验证码 驗證碼",
        rf"(?i:(?:{_PASSWORDS}){_EQUALS})(?P<secret>[0-9]{{4,64}})"
        r"(?![A-Za-z0-9_%]|\s?(?:[年月日天位个個次]|char|digit|bit))",
    ),
    _shape(
        "password",
        "密码 密碼 口令 密钥 密鑰 金鑰 令牌 權杖 passwd password passphrase pwd",
        r"(?:(?:密码|密碼|口令|密钥|密鑰|金鑰|令牌|權杖)\s{0,3}|(?i:passwd|password|passphrase|pwd)\s{1,3})[\"'`“「『]?"
        rf"(?P<secret>{_VALUE}{{6,64}})",
        _mixes_letters_and_digits,
    ),
    _shape(
        "password",
        "密码 密碼 口令 验证码 驗證碼",
        r"(?:密码|密碼|口令|验证码|驗證碼)\s{0,3}(?P<secret>[0-9]{4,12})(?![A-Za-z0-9_%./-]|\s?[年月日天位个個次点點:：])",
    ),
    _shape(
        "access-code",
        "pin alarm security cvv cvc",
        r"(?i:\b(?:pin(?: number)?(?:['’]s|\s{0,2}[:=]|\s(?:is|was)(?: now)?)"
        r"|(?:alarm|security)[ -]code(?:\s(?:for|of|to|on)\s[\w'./ -]{1,30}?)?"
        r"(?:['’]s|\s{0,2}[:=]|\s(?:is|was)(?: now)?)"
        r"|cvv2?\s{0,2}[:=]?|cvc\s{0,2}[:=])\s{0,3})"
        r"(?P<secret>[0-9]{3,8})(?![A-Za-z0-9_%]|[.,][0-9])",
    ),
    _shape(
        "password",
        "login",
        rf"(?i:\blogin\s?(?:is|was|:|=)\s{{1,3}})[^\s/]{{3,80}}\s?/\s?(?P<secret>{_VALUE}{{6,64}})",
        _is_varied,
    ),
    _shape(
        "password",
        "--",
        r"(?i:--?(?:[a-z]{1,20}-)?(?:password|passwd|passphrase|pwd|token|secret|api-?key)[ \t]{1,3})[\"']?"
        rf"(?P<secret>(?!-){_VALUE}{{6,200}})",
        lambda secret: not _is_placeholder(secret),
    ),
    _shape("card-number", "", r"(?<![A-Za-z0-9_.-])[2-6](?:[ -]?[0-9]){12,18}(?![A-Za-z0-9_-]|\.[0-9])", _is_card),
)


def redact(text: str) -> tuple[str, tuple[Redaction, ...]]:
    """Return *text* with every secret replaced by "[REDACTED:kind]", and how many there were of each sort, by name.

    What is replaced stays replaced: doing it twice changes nothing more. A text without secrets is returned as it is.
    """
    if len(text) < LEAST_CHARS:
        return text, ()
    lowered = text.lower()
    counts: Counter[str] = Counter()
    for shape in _SHAPES:
        if any(mark in lowered for mark in shape.marks) or (not shape.marks and _DIGITS.search(text)):
            text = _replace_secrets(text, shape, counts)
    return text, redactions_of(counts)


def _replace_secrets(text: str, shape: _Shape, counts: Counter[str]) -> str:
    group = "secret" if "secret" in shape.pattern.groupindex else 0

    def replacement(match: re.Match[str]) -> str:
        if not shape.holds(match[group]):
            return match[0]
        counts[shape.kind] += 1
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return f"{match[0][:start]}[REDACTED:{shape.kind}]{match[0][end:]}"

    return shape.pattern.sub(replacement, text)


def redactions_of(counts: Counter[str]) -> tuple[Redaction, ...]:
    """Return the counts by kind, in the order of their names."""
    return tuple(Redaction(kind, counts[kind]) for kind in sorted(counts))


def sum_redactions(parts: Iterable[Iterable[Redaction]]) -> tuple[Redaction, ...]:
    """Return the redactions of several texts together."""
    counts: Counter[str] = Counter()
    for part in parts:
        for redaction in part:
            counts[redaction.kind] += redaction.count
    return redactions_of(counts)


class Redactor:
    """Replaces secrets in all that is stored of a draft; one that is off replaces none."""

    def __init__(self, *, is_on: bool) -> None:
        """Replace secrets when *is_on*."""
        self.is_on = is_on

    def text(self, text: str) -> tuple[str, tuple[Redaction, ...]]:
        """Return a text without its secrets."""
        return redact(text) if self.is_on else (text, ())

    def draft(self, draft: Draft) -> tuple[Draft, tuple[Redaction, ...]]:
        """Return a draft without the secrets in its texts, tags, keywords and metadata; one without any as it is."""
        if not self.is_on:
            return draft, ()
        found: list[tuple[Redaction, ...]] = []
        values = {name: value for name in _FIELDS if (value := getattr(draft, name))}
        cleaned = {name: _redact_value(value, found) for name, value in values.items()}
        return (replace(draft, **cleaned), sum_redactions(found)) if any(found) else (draft, ())

    def json(self, value: dict[str, Json]) -> dict[str, Json]:
        """Return a JSON object without the secrets in its names and texts."""
        return _redact_value(value, []) if self.is_on else value

    def values(self, values: dict[str, T]) -> tuple[dict[str, T], tuple[Redaction, ...]]:
        """Return new values of fields, by name, without the secrets in them."""
        if not self.is_on:
            return values, ()
        found: list[tuple[Redaction, ...]] = []
        cleaned = {name: _redact_value(value, found) if name in _FIELDS else value for name, value in values.items()}
        return cleaned, sum_redactions(found)


def _redact_value(value: T, found: list[tuple[Redaction, ...]]) -> T:
    """Return a text, or a list or object of them, without secrets; keywords as `normal_keywords` does."""
    cleaned: object = value
    if isinstance(value, str):
        cleaned, redactions = redact(value)
        found.append(redactions)
    elif isinstance(value, dict):
        cleaned = _redact_object(value, found)
    elif isinstance(value, tuple) and value and isinstance(value[0], Keyword):
        cleaned = normal_keywords(_redact_keyword(one, found) for one in value)
    elif isinstance(value, list | tuple):
        cleaned = type(value)(_redact_value(part, found) for part in value)
    return cleaned  # type: ignore[return-value]  # the same shape as it came in


def _redact_keyword(keyword: Keyword, found: list[tuple[Redaction, ...]]) -> Keyword:
    return keyword._replace(term=_redact_value(keyword.term, found)[: limits.KEYWORD])


def _redact_object(value: dict[str, Json], found: list[tuple[Redaction, ...]]) -> dict[str, Json]:
    """Return an object without secrets; names that become equal are numbered, so that no value is lost."""
    cleaned: dict[str, Json] = {}
    for name, part in value.items():
        clean = first = _redact_value(name, found)
        number = 1
        while clean in cleaned or (clean != name and clean in value):
            number += 1
            clean = f"{first} {number}"
        cleaned[clean] = _redact_value(part, found)
    return cleaned
