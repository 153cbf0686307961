// An agent of the AI SDK that remembers across conversations. Usage: node example.mjs [URL].
//
// A scripted model takes the place of a language model, so it runs offline; the service must be running.

import { randomUUID } from "node:crypto";

import { memoryMiddleware, memoryTools } from "@memsvc/ai-sdk";
import { generateText, stepCountIs, wrapLanguageModel } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { connect } from "memsvc";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const remember = {
  type: "tool-call",
  toolCallId: "1",
  toolName: "remember",
  input: '{"statement": "The user\'s dog is called Rex."}',
};

/** Stores what is said, and answers from the memories that the middleware added. */
const scripted = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    const isKnown = JSON.stringify(prompt.slice(0, -1)).includes("Rex");
    const text = prompt.at(-1).role === "tool" ? "I will remember that." : "Your dog is Rex.";
    const content = isKnown ? [{ type: "text", text }] : [remember];
    const reason = isKnown ? "stop" : "tool-calls";
    return { content, finishReason: { unified: reason, raw: reason }, usage, warnings: [] };
  },
});

const memory = connect(process.argv[2], { userId: `user-${randomUUID()}`, projectId: "ai-sdk" });
for (const prompt of ["My dog is called Rex.", "What is my dog called?"]) {
  const model = wrapLanguageModel({
    model: scripted,
    middleware: memoryMiddleware(memory, { sessionId: randomUUID() }),
  });
  const { text } = await generateText({ model, prompt, tools: memoryTools(memory), stopWhen: stepCountIs(3) });
  console.log(`${prompt} -> ${text}`);
}
memory.close();
