// Parts of the transports of every runtime.

import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

/**
 * Returns the URL of an address; "HOST:PORT" is short for http, or with *isSecure* for https.
 *
 * @throws TypeError - The address is no URL.
 */
export function baseUrl(address: string, isSecure: boolean): string {
  const url = address.includes("://") ? address : `${isSecure ? "https" : "http"}://${address}`;
  if (!URL.canParse(url)) {
    throw new TypeError(`The address "${address}" is neither a URL nor HOST:PORT.`);
  }
  return url.replace(/\/+$/, "");
}

/** Returns an interceptor that refuses the calls of a client that was closed, which ends with *ending*. */
export function refusing(ending: AbortSignal): Interceptor {
  return (next) => async (request) => {
    if (ending.aborted) {
      throw new ConnectError("The client is closed.", Code.Canceled);
    }
    return next(request);
  };
}

/** Returns an interceptor that sends an API key with every call, or none without a key. */
export function bearer(apiKey: string | undefined): Interceptor[] {
  const key = (apiKey ?? "").trim();
  if (key === "") {
    return [];
  }
  return [
    (next) => (request) => {
      request.header.set("authorization", `Bearer ${key}`);
      return next(request);
    },
  ];
}
