// A watch of memories. What comes while nobody asks for it waits.

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";

import { patiently } from "./failure.js";
import type { MemoryService } from "./gen/memsvc/v1/memory_service_pb.js";
import type { ScopeSchema } from "./gen/memsvc/v1/types_pb.js";
import { type MemoryChange, MemoryChangeAction, type WatchMemoriesResponse } from "./gen/memsvc/v1/memory_service_pb.js";

const PATIENCE_MS = 10_000;

/** A change, and the cursor from which a later watch can go on after it. */
export interface Seen {
  readonly change: MemoryChange;
  readonly cursor: string;
}

/** Tells every change of the memories that a scope sees, once and in order. */
export class MemoryWatch {
  private constructor(
    private readonly stream: AsyncIterator<WatchMemoriesResponse>,
    private readonly ending: AbortController,
  ) {}

  /** Returns when the watch has begun: from then on no change is missed. With a cursor it goes on after that. */
  static async open(
    memories: Client<typeof MemoryService>,
    scope: MessageInitShape<typeof ScopeSchema>,
    cursor = "",
  ): Promise<MemoryWatch> {
    return patiently(PATIENCE_MS, async () => {
      const ending = new AbortController();
      const responses = memories.watchMemories({ scope, cursor }, { signal: ending.signal });
      const stream = responses[Symbol.asyncIterator]();
      await stream.next(); // the first response is a heartbeat
      return new MemoryWatch(stream, ending);
    });
  }

  /** Returns the next change; fails, and ends the watch, when none comes in time. */
  async next(patienceMs: number): Promise<Seen> {
    const timer = setTimeout(() => {
      this.ending.abort(new Error(`The watch heard of nothing for ${patienceMs} ms.`));
    }, patienceMs);
    try {
      for (;;) {
        const { value, done } = await this.stream.next();
        if (done === true) {
          throw new Error("The watch ended by itself.");
        }
        if (value.event.case === "change") {
          return { change: value.event.value, cursor: value.cursor };
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.ending.abort();
  }
}

/** Says in a line what a change was. */
export function line({ action, revision, memory }: MemoryChange): string {
  return `${MemoryChangeAction[action]} revision ${revision}: ${memory?.content}`;
}
