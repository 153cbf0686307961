// The client against a real service: MEMSVC_TEST_URL, and MEMSVC_TEST_GUARDED_URL, which asks for TLS and a key.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import { setTimeout } from "node:timers/promises";
import { after, before, describe, test, type TestContext } from "node:test";

import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import {
  connect,
  ContextSection,
  MemoryChangeAction,
  MemoryLayer,
  MemsvcError,
  MessageRole,
  WriteOutcome,
} from "memsvc";
import { MemoryService, type WatchMemoriesResponseSchema } from "memsvc/v1/memory_service";
import { SearchService } from "memsvc/v1/search_service";
import { connect as connectByFetch } from "memsvc/web";

import { RetryInfoSchema } from "../dist/gen/google/rpc/error_details_pb.js";

const url = process.env["MEMSVC_TEST_URL"] ?? "";
const guarded = {
  url: process.env["MEMSVC_TEST_GUARDED_URL"] ?? "",
  apiKey: process.env["MEMSVC_TEST_KEY"] ?? "",
  ca: process.env["MEMSVC_TEST_CA"] ?? "",
};
const skip = url === "" ? "MEMSVC_TEST_URL names no service" : false;

async function failure(call: Promise<unknown>): Promise<MemsvcError> {
  const error = await call.then(() => assert.fail("The call succeeded."), (error: unknown) => error);
  assert.ok(error instanceof MemsvcError, String(error));
  return error;
}

/** The error of a client that was closed. */
const CLOSED = "CANCELLED: The client is closed.";

/** Returns a refusal with a delay. */
function limited(seconds: bigint): ConnectError {
  const retry = { desc: RetryInfoSchema, value: { retryDelay: { seconds } } };
  return new ConnectError("too many calls", Code.ResourceExhausted, undefined, [retry]);
}

/** A TCP proxy whose connections can be cut. */
async function proxyTo(target: string): Promise<{ url: string; cut: () => void; close: () => void }> {
  const sockets = new Set<net.Socket>();
  const { hostname, port } = new URL(target);
  const server = net.createServer((socket) => {
    const remote = net.connect(Number(port), hostname);
    for (const [one, other] of [[socket, remote], [remote, socket]] as const) {
      sockets.add(one);
      one.pipe(other).on("error", () => undefined);
      one.on("close", () => other.destroy()).on("error", () => undefined);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => sockets.forEach((socket) => socket.destroy());
  const address = server.address() as net.AddressInfo;
  return { url: `http://127.0.0.1:${address.port}`, cut, close: () => (cut(), server.close()) };
}

/** Returns the URL of a server in this process that speaks HTTP/2, or HTTP/1.1 for `fetch`; it ends with the test. */
async function serve(context: TestContext, entry: string, routes: (router: ConnectRouter) => void): Promise<string> {
  const handler = connectNodeAdapter({ routes });
  const sockets = new Set<net.Socket>();
  const server = entry === "node" ? http2.createServer(handler) : http.createServer(handler);
  server.on("connection", (socket: net.Socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address() as net.AddressInfo;
  context.after(() => (server.close(), sockets.forEach((socket) => socket.destroy())));
  return `http://127.0.0.1:${address.port}`;
}

for (const [entry, open] of [["node", connect], ["fetch", connectByFetch]] as const) {
  describe(`the entry for ${entry}`, { skip }, () => {
    const memory = open(url, { userId: `ts-${randomUUID()}`, projectId: "trip", agentId: "planner" });
    after(() => memory.close());

    test("writes, reads, changes and deletes a memory", async () => {
      const made = await memory.create("The hotel is in Alfama.", {
        key: "hotel",
        layer: MemoryLayer.CORE,
        tags: ["hotel"],
        metadata: { party: 2 },
      });
      assert.equal(made.outcome, WriteOutcome.CREATED);
      const id = made.memory?.id ?? "";
      assert.deepEqual((await memory.get(id)).metadata, { party: 2 });
      assert.equal((await memory.get({ key: "hotel" })).scope?.agentId, "planner");

      const updated = await memory.update({ key: "hotel" }, { importance: 5 }, { clear: ["tags"] });
      assert.deepEqual([updated.memory?.importance, updated.memory?.tags], [5, []]);
      assert.equal(updated.memory?.content, "The hotel is in Alfama.");

      await memory.delete(id);
      const missing = await failure(memory.get(id));
      assert.deepEqual([missing.code, missing.reason], ["NOT_FOUND", "MEMORY_NOT_FOUND"]);
    });

    test("applies a write with the same request id once", async () => {
      const requestId = randomUUID();
      const first = await memory.create("Ann wants a window seat.", {}, { requestId });
      const second = await memory.create("Ann wants a window seat.", {}, { requestId });
      assert.deepEqual([second.memory?.id, second.outcome], [first.memory?.id, first.outcome]);
    });

    test("searches, and builds a context as events and as one text", async () => {
      await memory.create("我对花生过敏。", { layer: MemoryLayer.CORE });
      const { hits } = await memory.search("花生", { limit: 1 });
      assert.equal(hits[0]?.memory?.content, "我对花生过敏。");

      const text = await memory.context("Book a table", { totalTokens: 400 }).text();
      assert.match(text, /我对花生过敏。/);
      const { scope } = memory;
      const whole = { scope, query: "Book a table", options: { totalTokens: 400 } };
      assert.equal(text, (await memory.services.searches.renderContext(whole)).markdown);
      const cases: (string | undefined)[] = [];
      const sections: ContextSection[] = [];
      for await (const { event } of memory.context("Book a table", { totalTokens: 400 })) {
        cases.push(event.case);
        sections.push(...(event.case === "items" ? event.value.items.map((item) => item.section) : []));
      }
      assert.deepEqual([cases[0], cases.at(-1)], ["plan", "summary"]);
      assert.ok(sections.includes(ContextSection.PROJECT_CORE));
    });

    test("captures memories from a text", async () => {
      const { decisions } = await memory.capture("I live in Hamburg.", { role: MessageRole.USER }, { dryRun: true });
      assert.equal(decisions.length, 1);
    });

    test("holds a session", async () => {
      const session = await memory.session().open({ title: "Dinner" });
      assert.notEqual(session.id, "");
      const { messages } = await session.append(["A table for two?", { role: MessageRole.ASSISTANT, content: "At eight." }]);
      assert.equal(messages.length, 2);
      assert.match(await session.memory.context("dinner").text(), /At eight\./);
      const { session: closed } = await session.close({ flush: false });
      assert.equal(closed?.scope?.sessionId, session.id);
    });

    test("rejects with the code, the reason and all violations", async () => {
      const error = await failure(memory.create("", { importance: 9, tags: [""] }));
      assert.deepEqual([error.code, error.reason], ["INVALID_ARGUMENT", "INVALID_REQUEST"]);
      assert.deepEqual(
        error.violations.map(({ field }) => field),
        ["memory.content", "memory.tags[0]", "memory.importance"],
      );
      assert.match(String(error), /^INVALID_REQUEST: memory\.content: must have [^(]*; memory\.tags\[0\]: /);

      const { memory: stored } = await memory.create("At revision 1.", { key: "revised" });
      const conflict = await failure(memory.update(stored?.id ?? "", { importance: 2 }, { expectedRevision: 7n }));
      assert.deepEqual([conflict.code, conflict.metadata["revision"]], ["ABORTED", "1"]);
    });

    test("decodes the errors of generated clients", async () => {
      const call = memory.services.memories.createMemory({ memory: { content: "x", importance: 9 } });
      const error: unknown = await call.then(() => assert.fail("The call succeeded."), (cause: unknown) => cause);
      const decoded = MemsvcError.from(error);
      assert.deepEqual([decoded.code, decoded.reason, decoded.cause], ["INVALID_ARGUMENT", "INVALID_REQUEST", error]);
      assert.deepEqual(decoded.violations.map(({ field }) => field), ["scope.user_id", "memory.importance"]);
      assert.equal(MemsvcError.from(decoded), decoded);

      const lost = open("http://127.0.0.1:1", { userId: "ts" });
      const refused: unknown = await lost.services.memories.getMemory({}).catch((cause: unknown) => cause);
      assert.match(MemsvcError.from(refused).message, /^No service can be reached: /);
    });

    test("ends a call at its deadline and when it is cancelled", async () => {
      assert.equal((await failure(memory.search("late", { timeoutMs: 0.01 }))).code, "DEADLINE_EXCEEDED");
      const cancelled = await failure(memory.search("gone", { signal: AbortSignal.abort() }));
      assert.equal(cancelled.code, "CANCELLED");
    });

    test("repeats a call that a stopping service cancels, and none that the caller cancels", async (context) => {
      const caller = new AbortController();
      let calls = 0;
      const address = await serve(context, entry, (router) =>
        router.service(SearchService, {
          search({ query }) {
            calls += 1;
            if (query === "aborted") {
              caller.abort();
            } else if (query === "closed") {
              client.close();
            } else if (calls > 1) {
              return {};
            }
            throw new ConnectError("Cancelled on the server side", Code.Canceled);
          },
        }),
      );
      const client = open(address, { userId: "ts" });
      await client.search("x");
      assert.equal(calls, 2);
      assert.equal((await failure(client.search("aborted", { signal: caller.signal }))).code, "CANCELLED");
      assert.equal(calls, 3);
      assert.equal(String(await failure(client.search("closed"))), CLOSED);
      assert.equal(calls, 4);
    });

    test("refuses every call of a closed client", async () => {
      const client = open(url, { userId: `ts-${randomUUID()}` });
      await client.search("x"); // connects
      const watch = await client.watch();
      client.close();
      assert.equal(String(await failure(watch[Symbol.asyncIterator]().next())), CLOSED);
      assert.equal(String(await failure(client.search("x"))), CLOSED);
      assert.equal(String(await failure(client.context("x").text())), CLOSED);
      assert.equal(String(await failure(client.watch())), CLOSED);
      const generated: unknown = await client.services.searches.search({}).catch((cause: unknown) => cause);
      assert.equal(String(MemsvcError.from(generated)), CLOSED);
    });

    test("ends the delay of a call when its client is closed", async (context) => {
      const address = await serve(context, entry, (router) =>
        router.service(SearchService, {
          search() {
            setImmediate(() => client.close());
            throw limited(3_600n);
          },
        }),
      );
      const client = open(address, { userId: "ts", timeoutMs: 7_200_000 });
      assert.equal(String(await failure(client.search("x"))), CLOSED);
    });

    test("repeats a watch that the service ends before it begins five times", async (context) => {
      let calls = 0;
      const address = await serve(context, entry, (router) =>
        router.service(MemoryService, {
          async *watchMemories(): AsyncGenerator<MessageInitShape<typeof WatchMemoriesResponseSchema>> {
            calls += 1;
          },
        }),
      );
      const client = open(address, { userId: "ts" });
      const error = await failure(client.watch());
      assert.equal(error.code, "UNAVAILABLE");
      assert.match(error.message, /the service ended the stream/);
      assert.equal(calls, 5);

      const cancelled = await failure(client.watch({ signal: AbortSignal.abort() }));
      assert.equal(cancelled.code, "CANCELLED");
      client.close();
    });

    test("resumes a watch after its stream ends, after a refusal with a delay and after a slow iteration", async (context) => {
      let calls = 0;
      const address = await serve(context, entry, (router) =>
        router.service(MemoryService, {
          async *watchMemories({ cursor }): AsyncGenerator<MessageInitShape<typeof WatchMemoriesResponseSchema>> {
            calls += 1;
            if (calls === 2) {
              throw limited(0n);
            }
            yield { event: { case: "heartbeat", value: {} }, cursor };
            if (calls > 2) {
              yield { event: { case: "change", value: {} }, cursor: `change ${calls}` };
            }
          },
        }),
      );
      const client = open(address, { userId: "ts" });
      const patienceMs = 1_000;
      const watch = await client.watch({ patienceMs });
      const events = watch[Symbol.asyncIterator]();
      assert.equal((await events.next()).value?.cursor, "change 3");
      await setTimeout(patienceMs * 1.5);
      assert.equal((await events.next()).value?.cursor, "change 4");
      client.close();
    });

    test("fails a watch that gets no first response", async (context) => {
      let calls = 0;
      const address = await serve(context, entry, (router) =>
        router.service(MemoryService, {
          async *watchMemories(_, { signal }): AsyncGenerator<MessageInitShape<typeof WatchMemoriesResponseSchema>> {
            calls += 1;
            await once(signal, "abort");
          },
        }),
      );
      const client = open(address, { userId: "ts" });
      const error = await failure(client.watch({ heartbeatMs: 200 }));
      assert.equal(error.code, "UNAVAILABLE");
      assert.match(error.message, /nothing came for 600 ms/);
      assert.equal(calls, 1);
      client.close();
    });

    test("resumes a watch that a stopping service cancels, until its client is closed", async (context) => {
      const cursors: string[] = [];
      const address = await serve(context, entry, (router) =>
        router.service(MemoryService, {
          async *watchMemories({ cursor }): AsyncGenerator<MessageInitShape<typeof WatchMemoriesResponseSchema>> {
            cursors.push(cursor);
            if (cursors.length === 2) {
              yield { event: { case: "heartbeat", value: {} }, cursor: "begun" };
            } else if (cursors.length > 2) {
              yield { event: { case: "change", value: {} }, cursor: "changed" };
            }
            throw new ConnectError("Cancelled on the server side", Code.Canceled);
          },
        }),
      );
      const client = open(address, { userId: "ts" });
      const watch = await client.watch();
      const events = watch[Symbol.asyncIterator]();
      assert.equal((await events.next()).value?.cursor, "changed");
      assert.deepEqual(cursors, ["", "", "begun"]);
      client.close();
      await failure(events.next());
      assert.equal(cursors.length, 3);
    });

    test("tells mistakes of the caller from failures of the service", async () => {
      const wrong = await failure(memory.create("x", { layer: "CORE" as unknown as MemoryLayer }));
      assert.equal(wrong.code, "INVALID_ARGUMENT");
      assert.match(wrong.message, /^The request cannot be encoded: .*Memory\.layer/);
      await assert.rejects(memory.get(undefined as unknown as string), TypeError);
    });

    test("says at once that no service can be reached", async () => {
      const lost = open("http://127.0.0.1:1", { userId: "ts" });
      const error = await failure(lost.search("x"));
      assert.equal(error.code, "UNAVAILABLE");
      assert.match(error.message, /No service can be reached at http:\/\/127\.0\.0\.1:1: /);
      if (entry === "node") {
        const grpc = open(`http://${process.env["MEMSVC_TEST_ADDRESS"] ?? ""}`, { userId: "ts" });
        assert.match((await failure(grpc.search("x"))).message, /the address must be http\.address of the service/);
        grpc.close();
      }
      assert.throws(() => open("no address", { userId: "ts" }), /neither a URL nor HOST:PORT/);
    });

    test("watches from its begin on, after a broken connection and from a cursor", async () => {
      const proxy = await proxyTo(url);
      const scope = { userId: `ts-${randomUUID()}` };
      const writer = open(url, scope);
      const watcher = open(proxy.url, scope);
      const watch = await watcher.watch();
      await writer.create("One.");
      const seen: string[] = [];
      const cursors: string[] = [];
      for await (const { change, cursor } of watch) {
        assert.equal(change.action, MemoryChangeAction.CREATED);
        seen.push(change.memory?.content ?? "");
        cursors.push(cursor);
        if (seen.length === 1) {
          proxy.cut();
          await writer.create("Two.");
        } else if (seen.length === 2) {
          await writer.create("Three.");
        } else {
          break;
        }
      }
      assert.deepEqual(seen, ["One.", "Two.", "Three."]);

      await using again = await writer.watch({ cursor: cursors[0]! });
      for await (const { change } of again) {
        assert.equal(change.memory?.content, "Two.");
        break;
      }
      const closed = await writer.watch();
      closed.close();
      assert.deepEqual(await closed[Symbol.asyncIterator]().next(), { value: undefined, done: true });
      watcher.close();
      writer.close();
      proxy.close();
    });
  });
}

describe("a service with TLS and keys", { skip: skip || (guarded.url === "" && "no guarded service") }, () => {
  const scope = { userId: "ann", projectId: `ts-${randomUUID()}` };
  const tls = { ca: guarded.ca };

  test("is called with a key, and its rate limit is waited for", async () => {
    const memory = connect(guarded.url, { ...scope, apiKey: guarded.apiKey, tls });
    await Promise.all(Array.from({ length: 8 }, (_, index) => memory.create(`Number ${index}.`)));
    assert.equal((await memory.search("Number", { limit: 10 })).hits.length, 8);
    memory.close();
  });

  test("rejects calls without a key, and without TLS", async () => {
    const keyless = connect(guarded.url, { ...scope, apiKey: "", tls });
    assert.equal((await failure(keyless.search("x"))).code, "UNAUTHENTICATED");
    const plain = connect(guarded.url.replace("https:", "http:"), { ...scope, apiKey: guarded.apiKey });
    assert.equal((await failure(plain.search("x"))).code, "UNAVAILABLE");
    keyless.close();
    plain.close();
  });
});
