// A small agent with a long-term memory: it plans a trip. It writes what it hears in two languages, searches it, builds
// a context, and watches its memories.

import { randomUUID } from "node:crypto";

import {
  connect, ContextSection, DEFAULT_ADDRESS, MemoryChangeAction, type MemoryFields, MemoryKind, MemoryLayer, MemsvcError,
  WriteOutcome,
} from "memsvc";

/** What the agent hears. The last one has the key of the first, so it changes that memory. */
const HEARD: [string, MemoryFields][] = [
  ["The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.", { key: "hotel", tags: ["hotel"] }],
  ["我对花生过敏，点菜前要先告诉餐厅。", { layer: MemoryLayer.CORE, tags: ["food"] }],
  ["Ann wants a window seat on long flights.", { kind: MemoryKind.PREFERENCE }],
  ["找一家可以听法多音乐的餐厅。", { kind: MemoryKind.TASK, metadata: { party: 2, booked: false } }],
  ["The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro.", { key: "hotel" }],
];

async function run(address: string, projectId: string): Promise<void> {
  const ca = process.env["MEMSVC_TLS_CA"];
  const options = { userId: "ann", projectId, agentId: "planner-typescript", ...(ca && { tls: { ca } }) };
  using memory = connect(address, options);
  await using watch = await memory.watch(); // from now on no change is missed
  for (const [content, fields] of HEARD) {
    const stored = await memory.create(content, fields);
    console.log(`  ${WriteOutcome[stored.outcome]} ${stored.memory?.content}`);
  }
  await memory.create("", { importance: 9 }).catch((error: unknown) => {
    if (!(error instanceof MemsvcError)) throw error;
    console.log(`A wrong request is rejected: ${error.code} ${error.reason}`);
    error.violations.forEach(({ field, description }) => console.log(`  ${field}: ${description}`));
  });
  for (const query of ["Where is our hotel?", "餐厅要注意什么？"]) {
    console.log(`Found for "${query}":`);
    const { hits } = await memory.search(query, { filter: { tagsAny: ["hotel", "food"] }, limit: 3 });
    hits.forEach(({ score, memory: found }) => console.log(`  ${score.toFixed(2)} ${found?.content}`));
  }
  console.log("Context:");
  for await (const { event } of memory.context("Book a table for dinner near the hotel.", { totalTokens: 400 })) {
    for (const { section, text } of event.case === "items" ? event.value.items : []) {
      console.log(`  ${ContextSection[section]}: ${text.trim()}`);
    }
  }
  console.log("The watch saw:");
  const cursors: string[] = [];
  for await (const { change, cursor } of watch) {
    console.log(`  ${MemoryChangeAction[change.action]} ${change.revision} ${change.memory?.content}`);
    if (cursors.push(cursor) === HEARD.length) break;
  }
  await using resumed = await memory.watch({ cursor: cursors[0]! });
  for await (const { change } of resumed) {
    console.log(`Resumed after the first of them: ${change.memory?.content}`);
    break;
  }
}

const project = `trip-${randomUUID()}`;
try {
  await run(process.argv[2] ?? process.env["MEMSVC_ADDRESS"] ?? DEFAULT_ADDRESS, project);
  console.log(`Done: project ${project}`);
} catch (error) {
  console.error(error instanceof MemsvcError || error instanceof TypeError ? String(error) : error);
  process.exitCode = 1;
}
