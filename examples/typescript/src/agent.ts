// An agent that plans a trip: it remembers what it is told in two languages, recalls it, and watches what happens to
// its memories meanwhile.

import { randomUUID } from "node:crypto";

import { create, enumToJson, type MessageInitShape } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type Client, ConnectError, createClient, type Transport } from "@connectrpc/connect";

import { Failure, patiently } from "./failure.js";
import { type BuildContextResponse, ContextSection } from "./gen/memsvc/v1/search_service_pb.js";
import { ErrorReason, ErrorReasonSchema } from "./gen/memsvc/v1/errors_pb.js";
import { FilterField, FilterOperator } from "./gen/memsvc/v1/filters_pb.js";
import { type CreateMemoryRequestSchema, MemoryService } from "./gen/memsvc/v1/memory_service_pb.js";
import { SearchMode, type SearchRequestSchema, SearchService } from "./gen/memsvc/v1/search_service_pb.js";
import {
  MemoryKind,
  MemoryLayer,
  type MemorySchema,
  type ScopeSchema,
  WriteOutcome,
} from "./gen/memsvc/v1/types_pb.js";
import { line, MemoryWatch } from "./watch.js";

const CALL_TIMEOUT_MS = 10_000;
const CONTEXT_TOKENS = 400;

/** What the agent hears, in this order. The last one has the key of the first, so it changes that memory. */
const TOLD: MessageInitShape<typeof MemorySchema>[] = [
  {
    key: "hotel",
    content: "The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.",
    tags: ["hotel"],
    importance: 4,
  },
  { content: "我对花生过敏，点菜前要先告诉餐厅。", layer: MemoryLayer.CORE, tags: ["food"], importance: 5 },
  {
    content: "Ann wants a window seat on long flights.",
    kind: MemoryKind.PREFERENCE,
    tags: ["flight"],
    importance: 4,
  },
  {
    content: "找一家可以听法多音乐的餐厅。",
    kind: MemoryKind.TASK,
    tags: ["food", "music"],
    importance: 4,
    metadata: { party: 2, booked: false },
  },
  { key: "hotel", content: "The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro." },
];

export class Agent {
  readonly #memories: Client<typeof MemoryService>;
  readonly #searches: Client<typeof SearchService>;
  /** A project of its own. */
  readonly #scope = {
    userId: "ann",
    projectId: `trip-${randomUUID()}`,
    agentId: "planner-typescript",
  } satisfies MessageInitShape<typeof ScopeSchema>;

  constructor(transport: Transport) {
    this.#memories = createClient(MemoryService, transport);
    this.#searches = createClient(SearchService, transport);
  }

  async run(address: string): Promise<void> {
    const watch = await MemoryWatch.open(this.#memories, this.#scope);
    try {
      console.log(`Connected to ${address}: user ${this.#scope.userId}, project ${this.#scope.projectId}`);
      await this.#remember();
      await this.#sendWrongRequest();
      const found = await this.#recall();
      const shown = await patiently(CALL_TIMEOUT_MS, () => this.#prepare());
      const cursor = await this.#report(watch);
      await this.#resume(cursor);
      console.log(
        `Done: ${TOLD.length} writes, ${found} hits, ${shown} items of context, ${TOLD.length} changes.`,
      );
    } finally {
      watch.close();
    }
  }

  /** Writes what the agent is told. */
  async #remember(): Promise<void> {
    for (const [index, memory] of TOLD.entries()) {
      const request = { scope: this.#scope, memory, requestId: randomUUID() };
      const { memory: stored, outcome } = await this.#create(request);
      console.log(`  ${WriteOutcome[outcome]} ${stored?.content}`);
      if (index > 0) {
        continue;
      }
      // As if the reply had been lost: the same request once more. Its requestId makes it happen once.
      const again = await this.#create(request);
      if (again.memory?.id !== stored?.id || again.outcome !== outcome) {
        throw new Error("A repeated request was carried out twice.");
      }
      console.log("  Sent again with the same request_id: the same answer, stored once.");
    }
  }

  /** Makes one call, with a deadline. When the service asks for a pause, it is made. */
  #create(request: MessageInitShape<typeof CreateMemoryRequestSchema>) {
    return patiently(CALL_TIMEOUT_MS, () =>
      this.#memories.createMemory(request, { timeoutMs: CALL_TIMEOUT_MS }),
    );
  }

  /** Shows what a refusal looks like: every broken rule at once, each with its field. */
  async #sendWrongRequest(): Promise<void> {
    try {
      await this.#create({ scope: this.#scope, memory: { importance: 9, tags: [""] } });
    } catch (error) {
      const failure = Failure.of(ConnectError.from(error));
      if (failure.reason !== enumToJson(ErrorReasonSchema, ErrorReason.INVALID_REQUEST)) {
        throw error;
      }
      console.log(`A wrong request is refused: ${failure}`);
      return;
    }
    throw new Error("A wrong request was not refused.");
  }

  /** Asks for what was remembered, in both languages, and returns how many memories were found. */
  async #recall(): Promise<number> {
    let found = 0;
    for (const query of ["Where is our hotel?", "餐厅要注意什么？"]) {
      const hits = await this.#search(query);
      console.log(`Found for "${query}":`);
      for (const { score, memory } of hits) {
        console.log(`  ${score.toFixed(2)} ${memory?.content}`);
      }
      found += hits.length;
    }
    return found;
  }

  /** Finds by meaning and by words what matters and is no task. */
  async #search(query: string) {
    const noTask = {
      field: FilterField.KIND,
      operator: FilterOperator.NOT_EQUALS,
      values: [create(ValueSchema, { kind: { case: "stringValue", value: "TASK" } })],
    };
    const request: MessageInitShape<typeof SearchRequestSchema> = {
      scope: this.#scope,
      query,
      mode: SearchMode.HYBRID,
      filter: {
        tagsAny: ["hotel", "food"],
        minImportance: 4,
        where: { node: { case: "condition", value: noTask } },
      },
      limit: 3,
    };
    const { hits } = await patiently(CALL_TIMEOUT_MS, () =>
      this.#searches.search(request, { timeoutMs: CALL_TIMEOUT_MS }),
    );
    return hits;
  }

  /** Streams the context for the next answer, writes it as it comes, and returns how many items it has. */
  async #prepare(): Promise<number> {
    const request = {
      scope: this.#scope,
      query: "Book a table for dinner near the hotel.",
      options: { totalTokens: CONTEXT_TOKENS },
    };
    let items = 0;
    for await (const response of this.#searches.buildContext(request, { timeoutMs: CALL_TIMEOUT_MS })) {
      items += show(response);
    }
    return items;
  }

  /** Writes what the watch heard, and returns the cursor of the first change. */
  async #report(watch: MemoryWatch): Promise<string> {
    console.log("Meanwhile the watch saw:");
    let firstCursor = "";
    for (const _ of TOLD) {
      const { change, cursor } = await watch.next(CALL_TIMEOUT_MS);
      firstCursor ||= cursor;
      console.log(`  ${line(change)}`);
    }
    return firstCursor;
  }

  /** Goes on after a cursor, as after a broken connection, and writes the next change. */
  async #resume(cursor: string): Promise<void> {
    const watch = await MemoryWatch.open(this.#memories, this.#scope, cursor);
    try {
      const { change } = await watch.next(CALL_TIMEOUT_MS);
      console.log(`Resumed after the first of them: ${line(change)}`);
    } finally {
      watch.close();
    }
  }
}

/** Writes one event of a context, and returns how many items it holds. The texts of all events are the prompt. */
function show({ event }: BuildContextResponse): number {
  switch (event.case) {
    case "plan":
      console.log(`Context of at most ${event.value.totalTokens} tokens (${event.value.tokenizer}):`);
      return 0;
    case "items":
      for (const { section, tokenCount, text } of event.value.items) {
        process.stdout.write(`  ${ContextSection[section]}, ${tokenCount} tokens:\n${text}`);
      }
      return event.value.items.length;
    case "warning":
      console.error(`Warning: ${event.value.message}`);
      return 0;
    case "summary":
      console.log(`  ${event.value.tokenCount} tokens in all`);
      return 0;
    default: // a newer service may send what this program does not know
      return 0;
  }
}
