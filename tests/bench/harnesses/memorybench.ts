/**
 * memsvc as a provider of supermemoryai/memorybench: see "Harnesses of others" in ../README.md.
 *
 * A session becomes one memory for each of its messages. Searches are those of a service with its defaults.
 */

import { connect, type Memsvc } from "memsvc";
import type { IngestOptions, IngestResult, Provider, ProviderConfig, SearchOptions } from "../../types/provider";
import type { UnifiedMessage, UnifiedSession } from "../../types/unified";

const BATCH = 500;
const MAX_HITS = 100;
const TIMEOUT_MS = 600_000;

export class MemsvcProvider implements Provider {
  name = "memsvc";
  private client: Memsvc | undefined;

  /** Connects to `baseUrl`, by default a service on this machine. */
  async initialize(config: ProviderConfig): Promise<void> {
    this.client = connect(config.baseUrl || undefined, {
      userId: "benchmark",
      apiKey: config.apiKey || undefined,
      timeoutMs: TIMEOUT_MS,
    });
  }

  /** Stores sessions, and returns when they can be searched. */
  async ingest(sessions: UnifiedSession[], options: IngestOptions): Promise<IngestResult> {
    const client = this.of(options.containerTag);
    const memories = sessions.flatMap((session) =>
      session.messages.filter(({ content }) => content.trim()).map((message) => memoryOf(session, message)),
    );
    const documentIds: string[] = [];
    for (let start = 0; start < memories.length; start += BATCH) {
      const { results } = await client.services.memories.batchCreateMemories(
        {
          scope: client.scope,
          memories: memories.slice(start, start + BATCH).map((memory) => ({ memory })),
        },
        { timeoutMs: TIMEOUT_MS },
      );
      for (const { memory, status } of results) {
        if (status?.code) throw new Error(`A memory was refused: ${status.message}`);
        documentIds.push(memory?.id ?? "");
      }
    }
    return { documentIds };
  }

  /** Nothing is left to wait for. */
  async awaitIndexing(_result: IngestResult, _containerTag: string): Promise<void> {}

  async search(query: string, options: SearchOptions): Promise<unknown[]> {
    const limit = Math.min(options.limit ?? 30, MAX_HITS);
    const { hits } = await this.of(options.containerTag).search(query, { limit, minRelevance: options.threshold ?? 0 });
    return hits.map(({ memory, score, relevance }) => ({
      id: memory?.id,
      content: memory?.content,
      speaker: memory?.speaker,
      date: memory?.metadata?.["date"],
      sessionId: memory?.scope?.sessionId,
      score,
      relevance,
    }));
  }

  /** Erases all that was stored for a question. */
  async clear(containerTag: string): Promise<void> {
    const client = this.of(containerTag);
    await client.services.lifecycle.eraseUser({ scope: { userId: containerTag }, confirm: true });
  }

  private of(containerTag: string): Memsvc {
    if (!this.client) throw new Error("initialize() was not called");
    return this.client.scoped({ userId: containerTag });
  }
}

function memoryOf(session: UnifiedSession, message: UnifiedMessage) {
  const date = message.timestamp ?? session.metadata?.["date"];
  const moment = typeof date === "string" ? Date.parse(date) : NaN;
  return {
    content: message.content,
    speaker: message.speaker ?? message.role,
    scope: { sessionId: session.sessionId },
    ...(typeof date === "string" ? { metadata: { date } } : {}),
    ...(Number.isNaN(moment) ? {} : { eventTime: { seconds: BigInt(Math.floor(moment / 1000)), nanos: 0 } }),
  };
}

export default MemsvcProvider;
