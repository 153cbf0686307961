// The processor and the tools with scripted models of Mastra, against a real service: MEMSVC_TEST_URL.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";

import { Agent } from "@mastra/core/agent";
import { MockMemory } from "@mastra/core/memory";
import { MastraLanguageModelV2Mock, simulateReadableStream } from "@mastra/core/test-utils/llm-mock";
import { MemsvcProcessor, memoryTools } from "@memsvc/mastra";
import { connect, MessageRole } from "memsvc";

const base = connect(process.env.MEMSVC_TEST_URL, { userId: "nobody", projectId: "trip" });
after(() => base.close());
const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
const said = (text) => ({ type: "text", text });
const called = (toolName, input) => ({
  type: "tool-call",
  toolCallId: randomUUID(),
  toolName,
  input: JSON.stringify(input),
});
const ofResource = ({ resourceId }) => base.scoped({ userId: resourceId });

/** Returns a model that gives the listed answers one after the other. */
function scripted(...answers) {
  let count = 0;
  const next = () => answers[Math.min(count++, answers.length - 1)];
  const reasonOf = ({ type }) => (type === "tool-call" ? "tool-calls" : "stop");
  return new MastraLanguageModelV2Mock({
    doGenerate: async () => {
      const content = next();
      return { content: [content], finishReason: reasonOf(content), usage, warnings: [] };
    },
    doStream: async () => {
      const content = next();
      const deltas = [...(content.text ?? "")].map((delta) => ({ type: "text-delta", id: "1", delta }));
      const parts = content.text ? [{ type: "text-start", id: "1" }, ...deltas, { type: "text-end", id: "1" }] : [content];
      const chunks = [
        { type: "stream-start", warnings: [] },
        ...parts,
        { type: "finish", finishReason: reasonOf(content), usage },
      ];
      return { stream: simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null }) };
    },
  });
}

function agentOf(model, options, more = {}) {
  const processor = new MemsvcProcessor(ofResource, options);
  return new Agent({
    id: "assistant",
    name: "Assistant",
    instructions: "Help.",
    model,
    inputProcessors: [processor],
    outputProcessors: [processor],
    tools: memoryTools(ofResource),
    ...more,
  });
}

async function messagesOf(userId, sessionId) {
  const { scope, services } = base.scoped({ userId }).session(sessionId).memory;
  const { messages } = await services.sessions.listMessages({ scope });
  return messages.map(({ role, content }) => [MessageRole[role], content]);
}

const textsOf = (prompt) =>
  prompt.map(({ content }) => (typeof content === "string" ? content : content.map(({ text }) => text).join("")));

/** Calls one tool by a model; returns its result, and what the model reads of it. */
async function call(resource, toolName, input) {
  const model = scripted(called(toolName, input), said("done"));
  const result = await agentOf(model, { store: false }).generate("Go on.", { memory: { resource, thread: "t" } });
  return { result: result.toolResults[0]?.payload.result, read: JSON.stringify(model.doGenerateCalls[1].prompt.at(-1)) };
}

test("the memories of the resource are in the prompt, and turns of the thread are stored", async () => {
  const resource = randomUUID();
  await base.scoped({ userId: resource }).create("Ann's dog is called Rex.");
  const model = scripted(said("Rex."));
  const history = new MockMemory();
  const agent = agentOf(model, {}, { memory: history });
  const place = { memory: { resource, thread: "t-1" } };
  await agent.generate("What is my dog called? I am allergic to peanuts.", place);

  const texts = textsOf(model.doGenerateCalls[0].prompt);
  assert.equal(texts.length, 3);
  assert.match(texts[1], /Ann's dog is called Rex\./);
  assert.match(texts[2], /^What is my dog called\?/);
  assert.deepEqual(await messagesOf(resource, "t-1"), [
    ["USER", "What is my dog called? I am allergic to peanuts."],
    ["ASSISTANT", "Rex."],
  ]);
  const { hits } = await base.scoped({ userId: resource }).search("allergy to peanuts", { limit: 1 });
  assert.match(hits[0].memory.content, /allergic to peanuts/);
  const { messages } = await history.recall({ threadId: "t-1", resourceId: resource });
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant"]);

  const other = scripted(said("?"));
  await agentOf(other, {}).generate("What is my dog called?", { memory: { resource: randomUUID(), thread: "t-2" } });
  assert.equal(textsOf(other.doGenerateCalls[0].prompt).length, 2);
});

test("streams and tools: all steps have the memories, and the turn is stored once", async () => {
  const resource = randomUUID();
  await base.scoped({ userId: resource }).create("我的狗叫小黑。");
  const model = scripted(called("recall", { query: "狗叫什么" }), said("它叫小黑。"));
  const result = await agentOf(model, { capture: false }).stream("我的狗叫什么名字？", {
    memory: { resource, thread: "t-1" },
  });
  assert.equal(await result.text, "它叫小黑。");
  assert.equal(model.doStreamCalls.length, 2);
  for (const { prompt } of model.doStreamCalls) {
    assert.match(textsOf(prompt)[1], /我的狗叫小黑/);
  }
  assert.deepEqual(await messagesOf(resource, "t-1"), [
    ["USER", "我的狗叫什么名字？"],
    ["ASSISTANT", "它叫小黑。"],
  ]);
});

test("without a thread, or with store false, nothing is stored", async () => {
  const resource = randomUUID();
  await agentOf(scripted(said("Hello.")), { store: false }).generate("I am allergic to peanuts.", {
    memory: { resource, thread: "t-1" },
  });
  const processor = new MemsvcProcessor(base.scoped({ userId: resource }));
  await agentOf(scripted(said("Hello.")), {}, { outputProcessors: [processor], inputProcessors: [processor] }).generate(
    "I am allergic to peanuts.",
  );
  assert.deepEqual((await base.scoped({ userId: resource }).search("peanuts")).hits, []);
  await assert.rejects(messagesOf(resource, "t-1"), /not.found/i);
});

test("an agent remembers, recalls and forgets; outdated memories say so", async () => {
  const resource = randomUUID();
  const tea = (await call(resource, "remember", { statement: "用户喜欢喝茶。", kind: "PREFERENCE" })).result;
  const found = (await call(resource, "recall", { query: "喝什么？", limit: 100 })).result.memories;
  assert.deepEqual(found.map(({ id, statement }) => [id, statement]), [[tea.id, "用户喜欢喝茶。"]]);
  assert.deepEqual((await call(randomUUID(), "recall", { query: "喝什么？" })).result.memories, []);

  const coffee = (await call(resource, "remember", { statement: "用户改喝咖啡了。", replaces: tea.id })).result;
  const left = (await call(resource, "recall", { query: "喝什么？" })).result.memories;
  assert.deepEqual(left.map(({ id }) => id), [coffee.id]);
  assert.deepEqual((await call(resource, "forget", { id: coffee.id })).result, { deleted: true });
  assert.deepEqual((await call(resource, "forget", { id: coffee.id })).result, { deleted: false });

  const both = (await call(resource, "remember", { statement: "I live in Hamburg. My cat is called Mia." })).result;
  const newer = (await call(resource, "remember", { statement: "I live in Berlin now." })).result;
  const places = (await call(resource, "recall", { query: "Where do I live?" })).result.memories;
  const old = places.find(({ id }) => id === both.id);
  assert.match(old.currency, /^(outdated|conflicted)$/);
  assert.equal(old.newer_id, newer.id);
});

test("a model reads what to correct in an invalid call", async () => {
  const resource = randomUUID();
  assert.match((await call(resource, "remember", { statement: "" })).read, /memory\.content: must have 1 to/);
  assert.match((await call(resource, "forget", { id: "m3" })).read, /id: /);
  assert.match((await call(resource, "recall", { query: "x".repeat(9_000) })).read, /query: /);
});

test("a service that cannot be reached fails the run, or is reported", async () => {
  const away = connect("http://127.0.0.1:1", { userId: "ann", timeoutMs: 500 });
  after(() => away.close());
  const answer = (options) => {
    const processor = new MemsvcProcessor(away, options);
    const agent = agentOf(scripted(said("Hello.")), {}, { inputProcessors: [processor], outputProcessors: [processor] });
    return agent.generate("Hello.", { memory: { resource: "ann", thread: "t-1" } });
  };
  await assert.rejects(answer({}), /127\.0\.0\.1:1/);
  const failures = [];
  const { text } = await answer({ onError: (error) => failures.push(error.code) });
  assert.equal(text, "Hello.");
  assert.deepEqual(failures, ["UNAVAILABLE", "UNAVAILABLE"]);
});
