// A small agent with a long-term memory. It talks to the service that the first argument or MEMSVC_ADDRESS names.

import { Code, ConnectError } from "@connectrpc/connect";

import { Agent } from "./agent.js";
import { connect } from "./connect.js";
import { Failure } from "./failure.js";

const DEFAULT_ADDRESS = "127.0.0.1:50051";

/** Says in one sentence what went wrong and what to do about it. */
function explain(error: unknown, address: string): string {
  if (!(error instanceof ConnectError)) {
    return error instanceof Error ? error.message : String(error);
  }
  const failure = Failure.of(error);
  // A peer that hangs up, as one that wants TLS does, is told of as Canceled.
  if ((failure.code === Code.Unavailable || failure.code === Code.Canceled) && failure.reason === "") {
    return (
      `No memory service answers at ${address}: start one with "memsvc serve", or give its address as the first ` +
      "argument or in MEMSVC_ADDRESS (and in MEMSVC_TLS_CA the file of its authority, if it speaks TLS)."
    );
  }
  if (failure.code === Code.Unauthenticated) {
    return `${failure.message}: give a key in MEMSVC_API_KEY ("memsvc keys create" makes one).`;
  }
  return failure.toString();
}

const address = process.argv[2] ?? process.env["MEMSVC_ADDRESS"] ?? DEFAULT_ADDRESS;
try {
  const transport = connect(address, {
    apiKey: process.env["MEMSVC_API_KEY"] ?? "",
    authorityFile: process.env["MEMSVC_TLS_CA"] ?? "",
  });
  await new Agent(transport).run(address);
} catch (error) {
  console.error(explain(error, address));
  process.exitCode = 1;
}
