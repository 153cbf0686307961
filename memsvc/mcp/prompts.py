"""Prompts that people choose in their client: one to remember something, one to hear what is known."""

from __future__ import annotations

from mcp import MCPError
from mcp import types as mcp

REMEMBER, BRIEF = "remember", "brief-me"


def listed(*, read_only: bool) -> list[mcp.Prompt]:
    """Return the prompts, or those that change nothing."""
    brief = mcp.Prompt(
        name=BRIEF,
        title="Brief me",
        description="What is known, due and unsettled, about everything or a topic.",
        arguments=[mcp.PromptArgument(name="topic", description="About what; empty: about the task at hand.")],
    )
    remember = mcp.Prompt(
        name=REMEMBER,
        title="Remember",
        description="Keep something for later conversations.",
        arguments=[mcp.PromptArgument(name="what", description="What to remember.", required=True)],
    )
    return [brief] if read_only else [remember, brief]


def text_of(name: str, arguments: dict[str, str] | None, *, read_only: bool) -> str:
    """Return the message of a prompt.

    Raises:
        MCPError: There is no such prompt, or an argument is missing or unknown.
    """
    offered = {prompt.name: prompt for prompt in listed(read_only=read_only)}
    if name not in offered:
        message = f"There is no prompt {name!r}; there are {', '.join(offered)}."
        raise MCPError(mcp.INVALID_PARAMS, message)
    given = {key: value.strip() for key, value in (arguments or {}).items()}
    known = {one.name for one in offered[name].arguments or ()}
    if unknown := given.keys() - known:
        message = f"The prompt {name!r} has no argument {', '.join(sorted(unknown))}; it has {', '.join(known)}."
        raise MCPError(mcp.INVALID_PARAMS, message)
    if name == REMEMBER:
        if not given.get("what"):
            message = "The prompt 'remember' needs the argument what."
            raise MCPError(mcp.INVALID_PARAMS, message)
        return (
            "Remember this for later conversations, with the tool remember: as one self-contained statement in my "
            f"language, with names and absolute dates. 请记住：\n\n{given['what']}"
        )
    topic = given.get("topic")
    about = f"about: {topic}" if topic else "about what we are doing"
    tools = "context and conflicts" if read_only else "context, reminders and conflicts"
    return (
        f"Brief me {about}. Call the tools {tools} first. Tell me in my language what is "
        "known, what is due, and what contradicts itself, with the question that settles it. 请根据记忆向我简要汇报。"
    )


def prompt(name: str, arguments: dict[str, str] | None, *, read_only: bool) -> mcp.GetPromptResult:
    """Return a prompt as the message of a user."""
    text = text_of(name, arguments, read_only=read_only)
    content = mcp.TextContent(type="text", text=text)
    return mcp.GetPromptResult(messages=[mcp.PromptMessage(role="user", content=content)])
