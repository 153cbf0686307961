// The entry for Node.js: HTTP/2, TLS with an authority of its own, mTLS.

import { readFileSync } from "node:fs";

import { createConnectTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { type ClientOptions, DEFAULT_ADDRESS, DEFAULT_TIMEOUT_MS, Memsvc, Services } from "./client.js";
import { baseUrl, bearer, refusing } from "./transport.js";

export * from "./exports.js";

/** Files of TLS, each PEM. */
export interface Tls {
  /** The authority of the service's certificate; without it those that Node.js trusts. */
  readonly ca?: string;
  /** The certificate of the client for mTLS, with its key. */
  readonly certificate?: string;
  readonly key?: string;
}

/** Options of `connect`. */
export interface ConnectOptions extends ClientOptions {
  readonly tls?: Tls;
}

/**
 * Returns a client of the service at *address*, such as "https://memory.example"; it connects with the first call. The
 * API key is that of MEMSVC_API_KEY unless another one is given.
 *
 * @throws Error - The address is no URL, or a file of TLS cannot be read.
 */
export function connect(address: string = DEFAULT_ADDRESS, options: ConnectOptions): Memsvc {
  const { apiKey = process.env["MEMSVC_API_KEY"], timeoutMs = DEFAULT_TIMEOUT_MS, tls } = options;
  const url = baseUrl(address, tls !== undefined);
  const secrets = {
    ...(tls?.ca && { ca: readFileSync(tls.ca) }),
    ...(tls?.certificate && { cert: readFileSync(tls.certificate) }),
    ...(tls?.key && { key: readFileSync(tls.key) }),
  };
  const ending = new AbortController();
  const sessionManager = new Http2SessionManager(url, undefined, secrets);
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: "2",
    useBinaryFormat: true,
    interceptors: [refusing(ending.signal), ...bearer(apiKey)],
    sessionManager,
  });
  const { userId, projectId = "", agentId = "", sessionId = "" } = options;
  const scope = { userId, projectId, agentId, sessionId };
  ending.signal.addEventListener("abort", () => sessionManager.abort(), { once: true });
  return new Memsvc(new Services(transport), scope, url, timeoutMs, ending);
}
