"""A conversation over three sessions in English and Chinese, in which facts change.

Each session is closed at its end; the service extracts the memories by itself. Before it answers, an agent renders a
context: what was said earlier comes back, and what a newer statement outdates says so.

Usage: three_sessions.py [ADDRESS]
"""

from __future__ import annotations

import os
import sys
import uuid
from datetime import datetime, timedelta, timezone

from memsvc.client import Memsvc

BERLIN = timezone(timedelta(hours=1))
SESSIONS = (
    (
        datetime(2026, 11, 2, 18, 30, tzinfo=BERLIN),
        (
            ("USER", "Hi! I live in Hamburg and I work at Siemens."),
            ("ASSISTANT", "Nice to meet you. What can I do for you?"),
            ("USER", "Suggest a dinner, please."),
            ("USER", "I'm vegetarian."),
            ("ASSISTANT", "A lentil curry would do."),
            ("USER", "My dentist appointment is on November 20 at 9 am."),
        ),
    ),
    (
        datetime(2026, 11, 9, 20, 0, tzinfo=BERLIN),
        (
            ("USER", "晚上好!我搬到柏林了,昨天刚搬完。"),
            ("ASSISTANT", "恭喜乔迁!"),
            ("USER", "以后请用中文回答我。"),
            ("USER", "我对花生过敏,点菜的时候要注意。"),
        ),
    ),
    (
        datetime(2026, 11, 16, 8, 0, tzinfo=BERLIN),
        (
            ("USER", "I'm not vegetarian anymore, I eat fish again."),
            ("ASSISTANT", "好的,记住了。"),
            ("USER", "My dentist appointment is on November 27 now."),
            ("USER", "Thanks, that's all for now!"),
        ),
    ),
)
QUESTIONS = ("Where do I live?", "What should I cook tonight?", "我的牙医是哪天?")


def main() -> int:
    """Hold the conversation, then ask."""
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MEMSVC_ADDRESS", "127.0.0.1:50051")
    user = f"lena-{uuid.uuid4().hex[:8]}"
    with Memsvc(address, user_id=user, project_id="assistant") as memory:
        for number, (start, messages) in enumerate(SESSIONS, start=1):
            session = f"session-{number}"
            memory.create_session(session)
            memory.append_messages(
                [
                    {"role": role, "content": content, "event_time": start + timedelta(minutes=minute)}
                    for minute, (role, content) in enumerate(messages)
                ],
                session_id=session,
            )
            closed = memory.close_session(session, wait_for="INDEXED")
            print(f"Session {number}, {start:%d %B}: remembered")
            for result in closed.flush.results:
                print(f"  {result.memory.content}")
        for question in QUESTIONS:
            context = memory.render_context(question, total_tokens=600)
            print(question)
            for line in context.markdown.splitlines():
                if line.startswith("- ") and "assistant:" not in line:
                    print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
