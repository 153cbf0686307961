// The entry for browsers, Deno and other runtimes: calls are made with `fetch`.

import { createConnectTransport } from "@connectrpc/connect-web";

import { type ClientOptions, DEFAULT_ADDRESS, DEFAULT_TIMEOUT_MS, Memsvc, Services } from "./client.js";
import { baseUrl, bearer, refusing } from "./transport.js";

export * from "./exports.js";

/** Options of `connect`. */
export interface ConnectOptions extends ClientOptions {
  /** Used in place of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * Returns a client of the service at *address*, such as "https://memory.example"; it connects with the first call.
 *
 * @throws TypeError - The address is no URL.
 */
export function connect(address: string = DEFAULT_ADDRESS, options: ConnectOptions): Memsvc {
  const { apiKey, timeoutMs = DEFAULT_TIMEOUT_MS, fetch: given, userId, projectId, agentId, sessionId } = options;
  const ending = new AbortController();
  const url = baseUrl(address, false);
  const transport = createConnectTransport({
    baseUrl: url,
    useBinaryFormat: true,
    interceptors: [refusing(ending.signal), ...bearer(apiKey)],
    fetch: async (input, init) => {
      const signals = [ending.signal, ...(init?.signal ? [init.signal] : [])];
      return (given ?? globalThis.fetch)(input, { ...init, signal: AbortSignal.any(signals) });
    },
  });
  const scope = { userId, projectId: projectId ?? "", agentId: agentId ?? "", sessionId: sessionId ?? "" };
  return new Memsvc(new Services(transport), scope, url, timeoutMs, ending);
}
