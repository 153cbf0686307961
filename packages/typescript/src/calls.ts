// Deadlines and repeated attempts.

import { Code, type CallOptions as ConnectCallOptions, ConnectError } from "@connectrpc/connect";

import { clientClosed, MemsvcError, toMemsvcError } from "./errors.js";

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
   * which is not repeated; nor is one whose client is closed. Reads can be repeated; writes carry a request id, so that
   * they are applied once.
   */
  async failed(cause: unknown): Promise<void> {
    if (cause instanceof TypeError) {
      throw cause; // of the caller: those of `fetch` are wrapped by Connect
    }
    if (this.ending.aborted) {
      throw clientClosed(cause);
    }
    const error = toMemsvcError(cause, this.address);
    const delayMs = Math.max(error.retryAfterMs ?? 0, this.#backoffMs);
    const isRepeatable =
      error.code === "UNAVAILABLE" || error.code === "CANCELLED"
        ? this.#count < MAX_ATTEMPTS
        : (error.code === "RESOURCE_EXHAUSTED" || error.code === "ABORTED") && error.retryAfterMs !== undefined;
    if (!isRepeatable || this.signal?.aborted === true || performance.now() + delayMs > this.#end) {
      throw error;
    }
    this.#backoffMs = Math.min(this.#backoffMs * BACKOFF_MULTIPLIER, MAX_BACKOFF_MS);
    await pause(delayMs, this.signal, this.ending, error);
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

/**
 * Yields the responses of a stream. Before the first of them the call is repeated as other calls are, also if the service
 * ends the stream without an error.
 */
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
      if (!isStarted) {
        throw unexpectedEnd();
      }
    } catch (error) {
      if (isStarted) {
        throw ending.aborted ? clientClosed(error) : toMemsvcError(error, address);
      }
      await attempts.failed(error);
    }
  }
}

/** Returns the error of a stream that the service ended although it should go on. */
export function unexpectedEnd(): ConnectError {
  return new ConnectError("the service ended the stream", Code.Unavailable);
}

/** Waits; throws *error* as soon as the signal is aborted, or says that the client is closed as soon as it is. */
export function pause(
  delayMs: number,
  signal: AbortSignal | undefined,
  ending: AbortSignal,
  error: MemsvcError,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
      ending.removeEventListener("abort", close);
      settle();
    };
    const cancel = () => end(() => reject(error));
    const close = () => end(() => reject(clientClosed(error)));
    const timer = setTimeout(() => end(resolve), delayMs);
    signal?.addEventListener("abort", cancel);
    ending.addEventListener("abort", close);
    if (ending.aborted) {
      close();
    } else if (signal?.aborted) {
      cancel();
    }
  });
}
