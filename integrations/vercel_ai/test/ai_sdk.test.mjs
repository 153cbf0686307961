// Tools and middleware with scripted models of the AI SDK, against a real service: MEMSVC_TEST_URL.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, describe, test } from "node:test";

import { memoryMiddleware, memoryTools } from "@memsvc/ai-sdk";
import * as ai7 from "ai";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import * as ai6 from "ai-6";
import { MockLanguageModelV3 } from "ai-6/test";
import { connect, MessageRole } from "memsvc";

const url = process.env.MEMSVC_TEST_URL;
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const said = (text) => ({ type: "text", text });
const called = (toolName, input) => ({
  type: "tool-call",
  toolCallId: randomUUID(),
  toolName,
  input: JSON.stringify(input),
});

/** Returns a model that gives the listed answers one after the other, each a list of contents. */
function scripted(Mock, ...answers) {
  let count = 0;
  return new Mock({
    doGenerate: async () => {
      const content = answers[Math.min(count++, answers.length - 1)];
      const reason = content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop";
      return { content, finishReason: { unified: reason, raw: reason }, usage, warnings: [] };
    },
    doStream: async () => {
      const chunks = answers[Math.min(count++, answers.length - 1)].flatMap((part) =>
        part.type === "text"
          ? [
              { type: "text-start", id: "1" },
              ...[...part.text].map((delta) => ({ type: "text-delta", id: "1", delta })),
              { type: "text-end", id: "1" },
            ]
          : [part],
      );
      const finish = { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage };
      return {
        stream: simulateReadableStream({
          chunks: [{ type: "stream-start", warnings: [] }, ...chunks, finish],
          initialDelayInMs: null,
          chunkDelayInMs: null,
        }),
      };
    },
  });
}

async function messagesOf(memory, sessionId) {
  const { scope, services } = memory.session(sessionId).memory;
  const { messages } = await services.sessions.listMessages({ scope });
  return messages.map(({ role, content }) => [MessageRole[role], content]);
}

for (const [name, ai, Mock] of [
  ["AI SDK 7", ai7, MockLanguageModelV4],
  ["AI SDK 6", ai6, MockLanguageModelV3],
]) {
  describe(name, () => {
    const base = connect(url, { userId: `ai-${randomUUID()}` });
    after(() => base.close());
    const fresh = () => base.scoped({ userId: `ai-${randomUUID()}`, projectId: "trip" });

    /** Calls one tool by a model; returns the result that the model gets. */
    async function call(memory, toolName, input) {
      const model = scripted(Mock, [called(toolName, input)], [said("done")]);
      const { steps } = await ai.generateText({
        model,
        prompt: "Go on.",
        tools: memoryTools(memory),
        stopWhen: ai.stepCountIs(3),
      });
      const { output } = model.doGenerateCalls[1].prompt.at(-1).content[0];
      assert.equal(steps.length, 2);
      return output;
    }

    test("an agent remembers, recalls and forgets, for its own user and project", async () => {
      const memory = fresh();
      const tea = await call(memory, "remember", { statement: "The user prefers tea.", kind: "PREFERENCE" });
      await call(memory, "remember", { statement: "用户对花生过敏。" });
      const { value } = await call(memory, "recall", { query: "tea or coffee?", limit: 1 });
      assert.deepEqual(
        value.map(({ id, statement }) => [id, statement]),
        [[tea.value.id, "The user prefers tea."]],
      );
      assert.match(value[0].date, /^\d{4}-\d\d-\d\d$/);
      const found = await call(memory, "recall", { query: "对什么过敏？", limit: 500 });
      assert.equal(found.value[0].statement, "用户对花生过敏。");
      for (const other of [memory.scoped({ projectId: "work" }), memory.scoped({ userId: randomUUID() })]) {
        assert.deepEqual((await call(other, "recall", { query: "tea or coffee?" })).value, []);
      }
      assert.deepEqual((await call(memory, "forget", { id: tea.value.id })).value, { deleted: true });
      assert.deepEqual((await call(memory, "forget", { id: tea.value.id })).value, { deleted: false });
      const left = (await call(memory, "recall", { query: "tea or coffee?" })).value;
      assert.equal(left.some(({ id }) => id === tea.value.id), false);
      const { memory: stored } = await memory.services.memories.restoreMemory({
        scope: memory.scope,
        by: { case: "id", value: tea.value.id },
      });
      assert.equal(stored.source, "ai-sdk");
    });

    test("outdated memories are replaced, or say that they are outdated; expired ones are not found", async () => {
      const memory = fresh();
      const old = await call(memory, "remember", { statement: "Ann lives in Hamburg." });
      const now = await call(memory, "remember", { statement: "Ann moved to Berlin.", replaces: old.value.id });
      const ids = (await call(memory, "recall", { query: "Where does Ann live?" })).value.map(({ id }) => id);
      assert.deepEqual(ids, [now.value.id]);

      // Of two statements the first is outdated: the memory is found, and says so.
      const other = fresh();
      const both = await other.create("I live in Hamburg. My cat is called Mia.");
      const { memory: newer } = await other.create("I live in Berlin now.");
      const { value } = await call(other, "recall", { query: "Where do I live?" });
      const found = value.find(({ id }) => id === both.memory.id);
      assert.match(found.currency, /^(outdated|conflicted)$/);
      assert.equal(found.newer_id, newer.id);

      const late = fresh();
      const soon = { seconds: BigInt(Math.floor(Date.now() / 1000) - 1), nanos: 0 };
      await late.create("The door code is 4711.", { expireTime: soon });
      assert.deepEqual((await call(late, "recall", { query: "door code" })).value, []);
    });

    test("a model reads what to correct in an invalid call", async () => {
      const memory = fresh();
      for (const [tool, input, told] of [
        ["remember", { statement: "" }, /memory\.content: must have 1 to/],
        ["forget", { id: "m3" }, /id: must be a UUID|id/],
        ["recall", { query: "x".repeat(9_000) }, /query: /],
      ]) {
        const { type, value } = await call(memory, tool, input);
        assert.equal(type, "error-text");
        assert.match(value, told);
      }
    });

    test("a model reads the memories that fit, before the user's message, and the turn is stored", async () => {
      const memory = fresh();
      await memory.create("Ann's dog is called Rex.");
      const model = scripted(Mock, [said("Rex.")]);
      const wrapped = ai.wrapLanguageModel({ model, middleware: memoryMiddleware(memory, { sessionId: "s-1" }) });
      const messages = [
        { role: "user", content: "Hello." },
        { role: "assistant", content: "Hello!" },
        { role: "user", content: "What is my dog called? I am allergic to peanuts." },
      ];
      await ai.generateText({ model: wrapped, messages });

      const [call] = model.doGenerateCalls;
      assert.deepEqual(call.prompt.map(({ role }) => role), ["user", "assistant", "user", "user"]);
      assert.match(call.prompt[2].content[0].text, /Ann's dog is called Rex\./);
      assert.equal(call.prompt[3].content[0].text, messages[2].content);
      assert.deepEqual(await messagesOf(memory, "s-1"), [
        ["USER", messages[2].content],
        ["ASSISTANT", "Rex."],
      ]);
      const { hits } = await memory.search("allergy to peanuts", { limit: 1 });
      assert.match(hits[0].memory.content, /allergic to peanuts/);
    });

    test("streams and tools: a turn is stored once, when it ends", async () => {
      const memory = fresh();
      const options = { sessionId: "s-2", capture: false };
      const model = scripted(Mock, [said("Let me see."), called("recall", { query: "狗" })], [said("它叫小黑。")]);
      const wrapped = ai.wrapLanguageModel({ model, middleware: memoryMiddleware(memory, options) });
      await memory.create("我的狗叫小黑。");
      const result = ai.streamText({
        model: wrapped,
        prompt: "我的狗叫什么名字？",
        tools: memoryTools(memory),
        stopWhen: ai.stepCountIs(3),
      });
      assert.equal(await result.text, "它叫小黑。");
      for (const { prompt } of model.doStreamCalls) {
        assert.match(prompt[0].content[0].text, /小黑/);
      }
      const kept = [
        ["USER", "我的狗叫什么名字？"],
        ["ASSISTANT", "它叫小黑。"],
      ];
      assert.deepEqual(await messagesOf(memory, "s-2"), kept);
      // A session that was closed is opened again.
      await memory.session("s-2").close();
      await ai.streamText({ model: wrapped, prompt: "谢谢。" }).consumeStream();
      assert.deepEqual((await messagesOf(memory, "s-2")).length, 4);
      // The session's own messages are in no context of it, those of another session are.
      const text = async (sessionId) => {
        const asked = scripted(Mock, [said("?")]);
        const middleware = memoryMiddleware(memory.scoped({}), { sessionId });
        await ai.generateText({ model: ai.wrapLanguageModel({ model: asked, middleware }), prompt: "我的狗叫什么名字？" });
        return JSON.stringify(asked.doGenerateCalls[0].prompt.slice(0, -1));
      };
      assert.doesNotMatch(await text("s-2"), /它叫小黑/);
      assert.match(await text("s-3"), /它叫小黑/);
    });

    test("nothing is stored without a session, and nothing is added without memories or a message", async () => {
      const memory = fresh();
      const model = scripted(Mock, [said("Hello.")]);
      const wrapped = ai.wrapLanguageModel({ model, middleware: memoryMiddleware(memory) });
      await ai.generateText({ model: wrapped, prompt: "I am allergic to peanuts." });
      await ai.generateText({ model: wrapped, messages: [{ role: "assistant", content: "Hello." }] });
      assert.deepEqual(model.doGenerateCalls.map(({ prompt }) => prompt.length), [1, 1]);
      assert.deepEqual((await memory.search("peanuts")).hits, []);
    });

    test("a turn whose model fails is not stored", async () => {
      const memory = fresh();
      const error = { type: "error", error: new Error("overloaded") };
      const model = scripted(Mock, [said("I"), error]);
      const wrapped = ai.wrapLanguageModel({ model, middleware: memoryMiddleware(memory, { sessionId: "s-4" }) });
      await ai.streamText({ model: wrapped, prompt: "Hello.", onError: () => undefined }).consumeStream();
      await assert.rejects(messagesOf(memory, "s-4"), /SESSION_NOT_FOUND|not_found/i);
    });

    test("a service that cannot be reached fails the call, or is reported", async () => {
      const away = connect("http://127.0.0.1:1", { userId: "ann", timeoutMs: 500 });
      after(() => away.close());
      const answer = (options) =>
        ai.generateText({
          model: ai.wrapLanguageModel({
            model: scripted(Mock, [said("Hello.")]),
            middleware: memoryMiddleware(away, { sessionId: "s", ...options }),
          }),
          prompt: "Hello.",
          maxRetries: 0,
        });
      await assert.rejects(answer({}), /127\.0\.0\.1:1/);
      const failures = [];
      const { text } = await answer({ onError: (error) => failures.push(error.code) });
      assert.equal(text, "Hello.");
      assert.deepEqual(failures, ["UNAVAILABLE", "UNAVAILABLE"]);
    });
  });
}
