"""An agent of LangGraph that remembers across threads. Usage: example.py [ADDRESS].

A scripted model takes the place of a language model, so it runs offline; the service must be running.
"""

from __future__ import annotations

import sys
from typing import Annotated, TypedDict
from uuid import uuid4

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore

from memsvc_langgraph import MemsvcStore


class State(TypedDict):
    """The messages of a thread."""

    messages: Annotated[list[AnyMessage], add_messages]


def main(address: str) -> None:
    """Say something in one thread, and ask for it in another."""
    model = GenericFakeChatModel(messages=iter([AIMessage("I will remember that."), AIMessage("Your dog is Rex.")]))
    namespace = ("memories", f"user-{uuid4()}")

    def remember(state: State, *, store: BaseStore) -> None:
        store.put(namespace, str(uuid4()), {"memory": state["messages"][-2].text})

    def answer(state: State, *, store: BaseStore) -> State:
        found = store.search(namespace, query=state["messages"][-1].text, limit=3)
        known = "\n".join(item.value["memory"] for item in found)
        print(f"Known: {known}")
        return {"messages": [model.invoke([SystemMessage(f"You know:\n{known}"), *state["messages"]])]}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("remember", remember)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "remember")
    with MemsvcStore.from_address(address, user_id="example", project_id="langgraph") as store:
        graph = builder.compile(checkpointer=InMemorySaver(), store=store)
        for thread, text in (("1", "My dog is called Rex."), ("2", "What is my dog called?")):
            state = graph.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}})
            print(f"{text} -> {state['messages'][-1].text}")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["127.0.0.1:50051"])
