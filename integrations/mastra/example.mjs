// An agent of Mastra that remembers across threads. Usage: node example.mjs [URL].
//
// A scripted model takes the place of a language model, so it runs offline; the service must be running.

import { randomUUID } from "node:crypto";

import { Agent } from "@mastra/core/agent";
import { MastraLanguageModelV2Mock } from "@mastra/core/test-utils/llm-mock";
import { MemsvcProcessor } from "@memsvc/mastra";
import { connect } from "memsvc";

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
const memory = connect(process.argv[2], { userId: "", projectId: "mastra" });
const processor = new MemsvcProcessor(({ resourceId }) => memory.scoped({ userId: resourceId }));

const agent = new Agent({
  id: "assistant",
  name: "Assistant",
  instructions: "You are a helpful assistant.",
  // A model that answers from the memories that the processor added.
  model: new MastraLanguageModelV2Mock({
    doGenerate: async ({ prompt }) => {
      const isKnown = JSON.stringify(prompt.slice(0, -1)).includes("Rex");
      const content = [{ type: "text", text: isKnown ? "Your dog is Rex." : "Hello, Rex." }];
      return { content, finishReason: "stop", usage, warnings: [] };
    },
  }),
  inputProcessors: [processor],
  outputProcessors: [processor],
});

const resource = `user-${randomUUID()}`;
for (const prompt of ["My dog is called Rex.", "What is my dog called?"]) {
  const { text } = await agent.generate(prompt, { memory: { resource, thread: randomUUID() } });
  console.log(`${prompt} -> ${text}`);
}
memory.close();
