"""Secrets are found by their shape and replaced; what only looks like one stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.secrets import Redactor, luhn_holds, redact
from memsvc.domain.write_requests import Draft, Redaction

A1 = "a1B2c3D4e5F6g7H8i9J0"
SECRETS = {
    "sk-proj-" + A1 * 2: "api-key",
    "ghp_" + A1 * 2: "github-token",
    "github_pat_" + A1 * 2: "github-token",
    "glpat-" + A1: "gitlab-token",
    "xoxb-1234567890-" + A1: "slack-token",
    "AKIAIOSFODNN7EXAMPLE": "aws-access-key",
    "AIza" + A1 + "a1B2c3D4e5F6g7H": "google-api-key",
    "sk_live_" + A1: "stripe-key",
    "npm_" + A1 * 2: "npm-token",
    "hf_" + A1 * 2: "huggingface-token",
    "LTAI5t" + A1: "aliyun-access-key",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N": "jwt",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----": "private-key",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk": "private-key",
    "4111 1111 1111 1111": "card-number",
    "5500005555555559": "card-number",
    "3782-822463-10005": "card-number",
}
NAMED = {
    "password: hunter2!": "password: [REDACTED:password]",
    "my password is Tr0ub4dor&3, ok": "my password is [REDACTED:password], ok",
    "密码是Abc12345。": "密码是[REDACTED:password]。",
    "密碼是Abc12345。": "密碼是[REDACTED:password]。",
    "我的密碼改成Abc12345！": "我的密碼改成[REDACTED:password]！",
    "伺服器的金鑰現在是Abc12345xyz": "伺服器的金鑰現在是[REDACTED:password]",
    "口令：qwerty123": "口令：[REDACTED:password]",
    "wifi pass is joiner$Hut22": "wifi pass is [REDACTED:password]",
    "the wifi pw: joiner$Hut22": "the wifi pw: [REDACTED:password]",
    "公司 VPN 的 pass 是 Hello@2026": "公司 VPN 的 pass 是 [REDACTED:password]",
    "my phone passcode is 118822": "my phone passcode is [REDACTED:password]",
    "pwd for the nas: Chisel_2024": "pwd for the nas: [REDACTED:password]",
    "netflix login is a@b.com / Tenon!99": "netflix login is a@b.com / [REDACTED:password]",
    "我的验证码是 558213": "我的验证码是 [REDACTED:password]",
    "门锁密码 882913": "门锁密码 [REDACTED:password]",
    "支付密码829100别告诉别人": "支付密码[REDACTED:password]别告诉别人",
    "my pin's 4471": "my pin's [REDACTED:access-code]",
    "the alarm code for the workshop is 4471": "the alarm code for the workshop is [REDACTED:access-code]",
    "cvv 123": "cvv [REDACTED:access-code]",
    'api_key = "k3yk3yk3yk3y"': 'api_key = "[REDACTED:password]"',
    "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG": "aws_secret_access_key=[REDACTED:password]",
    "postgres://app:s3cret@db:5432/x": "postgres://app:[REDACTED:url-password]@db:5432/x",
    "redis://:p4ss@cache/0": "redis://:[REDACTED:url-password]@cache/0",
    "Authorization: Bearer abc.DEF-1234567890": "Authorization: Bearer [REDACTED:bearer-token]",
    "password=swordfish": "password=[REDACTED:password]",
    "记住root密码是Abc12345!": "记住root密码是[REDACTED:password]",
    "记住Redis密码：Abc12345!": "记住Redis密码：[REDACTED:password]",
    "记住 密码 Abc12345": "记住 密码 [REDACTED:password]",
    "root密码：abc12345": "root密码：[REDACTED:password]",
    "请记住我的wifi密码是sunflower99": "请记住我的wifi密码是[REDACTED:password]",
    "密码改成Abc12345吧": "密码改成[REDACTED:password]吧",
    "密码“Abc12345”": "密码“[REDACTED:password]”",
    "API密钥：abcd1234efgh5678": "API密钥：[REDACTED:password]",
    "银行卡密码是123456": "银行卡密码是[REDACTED:password]",
    "dbpassword is hunter22": "dbpassword is [REDACTED:password]",
    "MyPassword: hunter22": "MyPassword: [REDACTED:password]",
    "mysql --password hunter22": "mysql --password [REDACTED:password]",
    "psql --db-password swordfish": "psql --db-password [REDACTED:password]",
    "the password for the router is hunter22!": "the password for the router is [REDACTED:password]",
    "wifi password hunter22": "wifi password [REDACTED:password]",
}
HARMLESS = (
    "my bus pass is 30 pounds a month",
    "pin 13 is high",
    "the PIN code of Bangalore is 560001",
    "my pin is 2 years old",
    "the security code review is on 2027-01-05",
    "alarm code is in src/alarm.py",
    "the pw reset takes 24 hours",
    "cvc 4000 motors",
    "login: see docs / README2.md",
    "密码 2026 年改过",
    "密码 6 位数",
    "验证码 2026-01-05 到期",
    "验证码功能 3 月 5 日上线",
    "the password is wrong", "token count is 128000", "api_key = os.environ['KEY']", "token: ${TOKEN}",
    "password: string", "The secret is out there.", "order 1234567890123", "4111 1111 1111 1112",
    "https://example.com/a?b=c@d", "call +49 170 1234567 8901", "sk-learn is a library", "commit 9f8e7d6c5b4a39281706",
    "我忘了密码是什么", "uuid 0190163d-8694-739b-aea5-966c26f8ad91", "1111 1111 1111 1111", "git@github.com:a/b.git",
    "def f(password: str) -> None", "2026-02-06 10:00:00 12345",
    "密码为空时会返回401错误", "password sha256 hash", "密码长度为16位", "密码是2024年改的",
    "the password is 8 characters long", "--password $PW", "--max-tokens 128000", "订单号1234567890123",
)  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret[:16])
def test_a_secret_is_replaced_wherever_it_stands(secret: str) -> None:
    """Nothing of it is left, the words around it are, and its sort is told, in Chinese text as in English."""
    kind = SECRETS[secret]
    for before, after in (("It is ", " for now."), ("用 ", " 登录。"), ("", ""), ("记住账号是", "这个"), ("号", "。")):
        assert redact(before + secret + after) == (f"{before}[REDACTED:{kind}]{after}", (Redaction(kind, 1),))


@pytest.mark.parametrize("text", NAMED)
def test_a_value_that_is_called_secret_is_replaced(text: str) -> None:
    """The name stays, the value goes."""
    assert redact(text)[0] == NAMED[text]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """Talk of passwords, placeholders, numbers with a wrong check digit, ids."""
    assert redact(text) == (text, ())


@given(st.text(alphabet="a1B-_.:/@ =password密码是\n4[]REDACTED", max_size=120))
def test_replacing_twice_changes_nothing_more(text: str) -> None:
    """What was replaced is not a secret again."""
    once, _ = redact(text)

    assert redact(once)[0] == once


def test_check_digits() -> None:
    """The sum of digits, every second doubled, ends in 0."""
    assert luhn_holds("79927398713")
    assert not luhn_holds("79927398710")


def test_all_texts_of_a_draft_are_looked_at() -> None:
    """Content, title, summary, source, tags and metadata, and the count over all of them."""
    key = "sk-" + A1
    draft = Draft(key, title=key, summary=key, source=key, tags=("a", key), metadata={"a": [{"b": key}], "n": 1})

    clean, redactions = Redactor(is_on=True).draft(draft)

    assert key not in repr(clean)
    assert clean.metadata == {"a": [{"b": "[REDACTED:api-key]"}], "n": 1}
    assert redactions == (Redaction("api-key", 6),)
    assert Redactor(is_on=False).draft(draft) == (draft, ())
