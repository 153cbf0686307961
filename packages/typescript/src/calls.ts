// Deadlines and repeated attempts.

import type { CallOptions as ConnectCallOptions } from "@connectrpc/connect";

import { MemsvcError, toMemsvcError } from "./errors.js";

const MAX_ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 50;
const BACKOFF_MULTIPLIER = 3;
const MAX_BACKOFF_MS = 1_000;

/** Options of one call. */
export interface CallOptions {
  /** The deadline of the call, all attempts included; without it that of the client. */
  readonly timeoutMs?: number;
  /** Cancels the call. */
  readonly signal?: AbortSignal;
}

/** Attempts to call a service at an address, until *ending*, the end of the client, is aborted. */
export class Attempts {
  #count = 0;
  #backoffMs = FIRST_BACKOFF_MS;
  readonly #end: number;

  constructor(
    private readonly address: string,
    timeoutMs: number,
    private readonly signal: AbortSignal | undefined,
    private readonly ending: AbortSignal,
  ) {
    this.#end = performance.now() + timeoutMs;
  }

  /** Returns the options of the next attempt. */
  next(): ConnectCallOptions {
    this.#count += 1;
    const timeoutMs = this.#end === Infinity ? undefined : Math.max(1, Math.ceil(this.#end - performance.now()));
    return { ...(timeoutMs && { timeoutMs }), ...(this.signal && { signal: this.signal }) };
  }

  /**
   * Returns after the delay before another attempt, or throws if there is none. A TypeError of the caller is thrown as
   * it is.
   *
   * Calls are repeated while the service is UNAVAILABLE, up to five times, and while it asks for a delay (RetryInfo) that
   * ends before the deadline. A call that arrives while the service stops is CANCELLED, as is one that the caller cancels,
   * which is not repeated. Reads can be repeated; writes carry a request id, so that they are applied once.
   */
  async failed(cause: unknown): Promise<void> {
    if (cause instanceof TypeError) {
      throw cause; // of the caller: those of `fetch` are wrapped by Connect
    }
    const error = toMemsvcError(cause, this.address);
    const delayMs = Math.max(error.retryAfterMs ?? 0, this.#backoffMs);
    const isRepeatable =
      error.code === "UNAVAILABLE" || error.code === "CANCELLED"
        ? this.#count < MAX_ATTEMPTS
        : error.code === "RESOURCE_EXHAUSTED" && error.retryAfterMs !== undefined;
    const isCancelled = this.signal?.aborted === true || this.ending.aborted;
    if (!isRepeatable || isCancelled || performance.now() + delayMs > this.#end) {
      throw error;
    }
    this.#backoffMs = Math.min(this.#backoffMs * BACKOFF_MULTIPLIER, MAX_BACKOFF_MS);
    await pause(delayMs, this.signal, error);
    if (this.ending.aborted) {
      throw error;
    }
  }
}

/** Makes one call, again where it is safe. */
export async function attempt<T>(
  address: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  ending: AbortSignal,
  call: (options: ConnectCallOptions) => Promise<T>,
): Promise<T> {
  const attempts = new Attempts(address, timeoutMs, signal, ending);
  for (;;) {
    try {
      return await call(attempts.next());
    } catch (error) {
      await attempts.failed(error);
    }
  }
}

/** Yields the responses of a stream. Before the first of them the call is repeated as other calls are. */
export async function* attemptStream<T>(
  address: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
  ending: AbortSignal,
  call: (options: ConnectCallOptions) => AsyncIterable<T>,
): AsyncGenerator<T> {
  const attempts = new Attempts(address, timeoutMs, signal, ending);
  for (let isStarted = false; !isStarted; ) {
    try {
      for await (const response of call(attempts.next())) {
        isStarted = true;
        yield response;
      }
      return;
    } catch (error) {
      if (isStarted) {
        throw toMemsvcError(error, address);
      }
      await attempts.failed(error);
    }
  }
}

/** Waits; throws *error* as soon as the signal is aborted. */
export function pause(delayMs: number, signal: AbortSignal | undefined, error: MemsvcError): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, delayMs);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
