// The connection: where to, with which key, and what is tried again.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

const MAX_ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 50;
const BACKOFF_MULTIPLIER = 3;
const MAX_BACKOFF_MS = 1_000;

export interface ConnectOptions {
  /** Every call brings it; empty: none. */
  readonly apiKey: string;
  /** The file of the authority that vouches for the service; empty: no TLS. */
  readonly authorityFile: string;
}

/**
 * Returns a transport to the service at "HOST:PORT"; it connects with the first call.
 *
 * @throws Error - The address is none, or the authority's file cannot be read.
 */
export function connect(address: string, { apiKey, authorityFile }: ConnectOptions): Transport {
  const secure = authorityFile !== "";
  const baseUrl = `${secure ? "https" : "http"}://${address}`;
  if (!URL.canParse(baseUrl)) {
    throw new Error(`"${address}" is no address: write HOST:PORT.`);
  }
  return createGrpcTransport({
    baseUrl,
    interceptors: [retry, ...(apiKey === "" ? [] : [bearing(apiKey)])],
    ...(secure ? { nodeOptions: { ca: readFileSync(authorityFile) } } : {}),
  });
}

function bearing(apiKey: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${apiKey}`);
    return next(request);
  };
}

/**
 * Makes a call again when the service is away for a moment, as a gRPC service config has other clients do. That is safe
 * for reads, and for writes because each carries a requestId. The call's deadline holds for all attempts together.
 */
const retry: Interceptor = (next) => async (request) => {
  if (request.stream) {
    return next(request);
  }
  for (let attempt = 1, backoff = FIRST_BACKOFF_MS; ; attempt += 1) {
    try {
      return await next(request);
    } catch (error) {
      if (ConnectError.from(error).code !== Code.Unavailable || attempt === MAX_ATTEMPTS) {
        throw error;
      }
      await pause(backoff * Math.random(), undefined, { signal: request.signal });
      backoff = Math.min(backoff * BACKOFF_MULTIPLIER, MAX_BACKOFF_MS);
    }
  }
};
