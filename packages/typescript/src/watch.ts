// Watches that survive broken connections and restarts of the service.

import { type Client, Code, ConnectError } from "@connectrpc/connect";

import { attemptStream, pause, unexpectedEnd } from "./calls.js";
import type { Fields, Scope } from "./client.js";
import { clientClosed, MemsvcError, toMemsvcError } from "./errors.js";
import {
  type MemoryChange,
  type MemoryService,
  type WatchMemoriesRequestSchema,
  type WatchMemoriesResponse,
} from "./gen/memsvc/v1/memory_service_pb.js";

const HEARTBEAT_MS = 15_000;
/** After so many missing heartbeats the connection counts as broken. */
const SILENT_HEARTBEATS = 3;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
const DEFAULT_PATIENCE_MS = 60_000;

/** Options of a watch: fields of its request, and what follows. */
export interface WatchOptions extends Fields<typeof WatchMemoriesRequestSchema, "heartbeatInterval"> {
  readonly heartbeatMs?: number;
  /** The longest time for which the service may be unreachable; 60 seconds without it. */
  readonly patienceMs?: number;
  /** Ends the watch. */
  readonly signal?: AbortSignal;
}

/** A committed change, and the cursor from which another watch continues after it. */
export interface WatchEvent {
  readonly change: MemoryChange;
  readonly cursor: string;
}

/** A watch that has begun. Iterate it once; leaving the loop or `close` ends it. */
export class Watch implements AsyncIterable<WatchEvent> {
  readonly #ending = new AbortController();
  readonly #events: AsyncGenerator<WatchEvent>;
  #cursor: string;
  #pauseMs = FIRST_PAUSE_MS;
  #heardAt = performance.now();

  private constructor(
    private readonly memories: Client<typeof MemoryService>,
    private readonly scope: Scope,
    private readonly address: string,
    private readonly clientEnding: AbortSignal,
    private readonly options: WatchOptions,
  ) {
    this.#cursor = options.cursor ?? "";
    options.signal?.addEventListener("abort", () => this.close(), { once: true });
    if (options.signal?.aborted) {
      this.close();
    }
    this.#events = this.#run();
  }

  /** @internal Returns after the first response, a heartbeat. */
  static async begin(
    memories: Client<typeof MemoryService>,
    scope: Scope,
    address: string,
    clientEnding: AbortSignal,
    options: WatchOptions,
  ): Promise<Watch> {
    const watch = new Watch(memories, scope, address, clientEnding, options);
    const { done } = await watch.#events.next(); // yields undefined as soon as the watch has begun
    if (done) {
      throw new MemsvcError("CANCELLED", "The watch was ended before it began.");
    }
    return watch;
  }

  /** The cursor after the last event. */
  get cursor(): string {
    return this.#cursor;
  }

  [Symbol.asyncIterator](): AsyncIterator<WatchEvent> {
    return this.#events;
  }

  /** Ends the watch. */
  close(): void {
    this.#ending.abort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  /** Yields the changes; first, as soon as the watch has begun, one undefined value, which `begin` takes. */
  async *#run(): AsyncGenerator<WatchEvent> {
    const { signal } = this.#ending;
    let isBegun = false;
    try {
      while (!signal.aborted) {
        try {
          for await (const { event, cursor } of this.#call(isBegun)) {
            this.#pauseMs = FIRST_PAUSE_MS;
            this.#cursor = cursor;
            if (!isBegun) {
              isBegun = true;
              yield undefined as never;
            }
            if (event.case === "change") {
              yield { change: event.value, cursor };
            }
            this.#heardAt = performance.now(); // the time that the program takes for an event does not count
          }
        } catch (error) {
          await this.#recover(error, isBegun);
        }
      }
    } catch (error) {
      if (!signal.aborted) {
        throw error;
      }
    } finally {
      this.close();
    }
  }

  /** Returns after a pause if the watch can go on; throws otherwise. */
  async #recover(cause: unknown, isBegun: boolean): Promise<void> {
    if (this.clientEnding.aborted) {
      throw clientClosed(cause);
    }
    const error = toMemsvcError(cause, this.address);
    const { patienceMs = DEFAULT_PATIENCE_MS } = this.options;
    const isLost =
      error.code === "UNAVAILABLE" ||
      error.code === "CANCELLED" ||
      (error.code === "RESOURCE_EXHAUSTED" && error.retryAfterMs !== undefined);
    const isLate = performance.now() - this.#heardAt > patienceMs;
    if (!isBegun || !isLost || isLate) {
      throw error;
    }
    await pause(Math.max(this.#pauseMs, error.retryAfterMs ?? 0), this.#ending.signal, this.clientEnding, error);
    this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
  }

  /** Yields the responses of one call; fails if the service ends it, or if nothing comes for too long. */
  async *#call(isBegun: boolean): AsyncGenerator<WatchMemoriesResponse> {
    const { heartbeatMs = HEARTBEAT_MS, patienceMs: _, signal: __, ...request } = this.options;
    const heartbeatInterval = {
      seconds: BigInt(Math.floor(heartbeatMs / 1_000)),
      nanos: (heartbeatMs % 1_000) * 1_000_000,
    };
    const message = { ...request, cursor: this.#cursor, scope: this.scope, heartbeatInterval };
    const silence = new AbortController();
    const stop = () => silence.abort(this.#ending.signal.reason);
    this.#ending.signal.addEventListener("abort", stop, { once: true });
    const listen = () => setTimeout(() => silence.abort("silence"), heartbeatMs * SILENT_HEARTBEATS);
    let timer = listen();
    try {
      const responses = isBegun
        ? this.memories.watchMemories(message, { signal: silence.signal })
        : attemptStream(this.address, Infinity, silence.signal, this.clientEnding, (call) =>
            this.memories.watchMemories(message, call),
          );
      for await (const response of responses) {
        clearTimeout(timer);
        yield response;
        timer = listen();
      }
      throw unexpectedEnd();
    } catch (error) {
      if (silence.signal.reason === "silence") {
        throw new ConnectError(`nothing came for ${heartbeatMs * SILENT_HEARTBEATS} ms`, Code.Unavailable);
      }
      throw error;
    } finally {
      clearTimeout(timer);
      this.#ending.signal.removeEventListener("abort", stop);
      silence.abort();
    }
  }
}
