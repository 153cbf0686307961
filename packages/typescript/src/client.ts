// The client: connection, scope, and the calls about memories.

import { create, type DescMessage, type MessageInitShape, type MessageShape } from "@bufbuild/protobuf";
import { type FieldMask, FieldMaskSchema } from "@bufbuild/protobuf/wkt";
import { type CallOptions as ConnectCallOptions, type Client, createClient, type Transport } from "@connectrpc/connect";

import { attempt, attemptStream, type CallOptions } from "./calls.js";
import { Context } from "./context.js";
import { AdminService } from "./gen/memsvc/v1/admin_service_pb.js";
import { FileService } from "./gen/memsvc/v1/file_service_pb.js";
import { LifecycleService } from "./gen/memsvc/v1/lifecycle_service_pb.js";
import {
  type CaptureMemoryRequestSchema,
  type CaptureMemoryResponse,
  type CreateMemoryRequestSchema,
  type CreateMemoryResponse,
  type DeleteMemoryRequestSchema,
  type DeleteMemoryResponse,
  type GetMemoryRequestSchema,
  MemoryService,
  type UpdateMemoryRequestSchema,
  type UpdateMemoryResponse,
} from "./gen/memsvc/v1/memory_service_pb.js";
import {
  type BuildContextRequestSchema,
  type ContextOptionsSchema,
  type SearchRequestSchema,
  type SearchResponse,
  SearchService,
} from "./gen/memsvc/v1/search_service_pb.js";
import { SessionService } from "./gen/memsvc/v1/session_service_pb.js";
import { type ChatMessageSchema, type Memory, MemorySchema } from "./gen/memsvc/v1/types_pb.js";
import { Session } from "./session.js";
import { Watch, type WatchOptions } from "./watch.js";

export const DEFAULT_ADDRESS = "http://127.0.0.1:50080";
export const DEFAULT_TIMEOUT_MS = 30_000;

/** Fields of a message as plain values; those that the client sets itself are left out. */
export type Fields<D extends DescMessage, Own extends string = never> = Omit<
  Exclude<MessageInitShape<D>, MessageShape<D>>,
  Own | "scope" | "requestId" | "$typeName" | "$unknown"
>;

/** Fields of a request, and options of its call. A repeated `requestId` repeats a write, which is applied once. */
export type Options<D extends DescMessage, Own extends string = never> = Fields<D, Own> &
  CallOptions & { readonly requestId?: string };

/** Fields of a new memory beside its content. */
export type MemoryFields = Fields<typeof MemorySchema, "content" | "id">;

/** The memory with this id, or with this key in the project of the client. */
export type MemoryName = string | { readonly key: string };

/** The user, project, agent and session of the calls of a client. */
export interface Scope {
  readonly userId: string;
  readonly projectId?: string;
  readonly agentId?: string;
  readonly sessionId?: string;
}

/** Options of a client, those of the transport excepted. */
export interface ClientOptions extends Scope {
  /** Sent with every call as a bearer token. */
  readonly apiKey?: string;
  /** The deadline of calls that name none; 30 seconds without it. */
  readonly timeoutMs?: number;
}

/**
 * The generated clients of all services; their calls have no deadline, are not repeated, and throw ConnectError, which
 * MemsvcError.from decodes.
 */
export class Services {
  readonly memories: Client<typeof MemoryService>;
  readonly searches: Client<typeof SearchService>;
  readonly sessions: Client<typeof SessionService>;
  readonly files: Client<typeof FileService>;
  readonly lifecycle: Client<typeof LifecycleService>;
  readonly admin: Client<typeof AdminService>;

  constructor(transport: Transport) {
    this.memories = createClient(MemoryService, transport);
    this.searches = createClient(SearchService, transport);
    this.sessions = createClient(SessionService, transport);
    this.files = createClient(FileService, transport);
    this.lifecycle = createClient(LifecycleService, transport);
    this.admin = createClient(AdminService, transport);
  }
}

/** A connection to a memory service, for one user and project. Every method may reject with MemsvcError. */
export class Memsvc {
  constructor(
    readonly services: Services,
    readonly scope: Scope,
    private readonly address: string,
    private readonly timeoutMs: number,
    private readonly ending: AbortController,
  ) {}

  /** Returns a client of the same connection with another project, agent or session. */
  scoped(scope: Partial<Scope>): Memsvc {
    return new Memsvc(this.services, { ...this.scope, ...scope }, this.address, this.timeoutMs, this.ending);
  }

  /** Ends the connection. Calls and watches under way, and later ones, fail with the code CANCELLED. */
  close(): void {
    this.ending.abort();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Stores one memory; under an existing key, updates that one. */
  create(
    content: string,
    fields: MemoryFields = {},
    options: Options<typeof CreateMemoryRequestSchema, "memory"> = {},
  ): Promise<CreateMemoryResponse> {
    const memory = { ...fields, content };
    return this.write(options, (request, call) => this.services.memories.createMemory({ ...request, memory }, call));
  }

  /** Returns one memory. */
  async get(name: MemoryName, options: Options<typeof GetMemoryRequestSchema, "by"> = {}): Promise<Memory> {
    const response = await this.read(options, (request, call) =>
      this.services.memories.getMemory({ ...request, by: by(name) }, call),
    );
    return response.memory ?? create(MemorySchema);
  }

  /** Changes the given fields of a memory, and clears those that `clear` names, by their names in the API. */
  update(
    name: MemoryName,
    changes: Fields<typeof MemorySchema, "id">,
    options: Options<typeof UpdateMemoryRequestSchema, "memory" | "updateMask"> & { readonly clear?: string[] } = {},
  ): Promise<UpdateMemoryResponse> {
    const { clear = [], ...rest } = options;
    const memory = { ...changes, ...(typeof name === "string" ? { id: name } : name) };
    const updateMask = mask(changes, clear);
    return this.write(rest, (request, call) =>
      this.services.memories.updateMemory({ ...request, memory, updateMask }, call),
    );
  }

  /** Deletes a memory so that it can be restored, or with `purge` for good. */
  delete(
    name: MemoryName,
    options: Options<typeof DeleteMemoryRequestSchema, "by"> = {},
  ): Promise<DeleteMemoryResponse> {
    return this.write(options, (request, call) =>
      this.services.memories.deleteMemory({ ...request, by: by(name) }, call),
    );
  }

  /** Returns the memories that fit a query, best first. */
  search(query: string, options: Options<typeof SearchRequestSchema, "query"> = {}): Promise<SearchResponse> {
    return this.read(options, (request, call) => this.services.searches.search({ ...request, query }, call));
  }

  /**
   * Builds the context for a query: `await context.text()` returns it as one text, iteration yields its events as they
   * come. The call starts with the first of them.
   */
  context(
    query: string,
    options: Fields<typeof ContextOptionsSchema> &
      Options<typeof BuildContextRequestSchema, "query" | "options"> = {},
  ): Context {
    const { timeoutMs, signal, requestId: _, vector, consistencyToken, cursor, earlierCursor, ...rest } = options;
    const fields = { vector, consistencyToken, cursor, earlierCursor };
    const request = { ...withoutUndefined(fields), scope: this.scope, query, options: rest };
    return new Context(
      attemptStream(this.address, timeoutMs ?? this.timeoutMs, signal, this.ending.signal, (call) =>
        this.services.searches.buildContext(request, call),
      ),
    );
  }

  /** Captures memories from a text that was said; returns a decision for each of its statements. */
  capture(
    text: string,
    fields: Fields<typeof ChatMessageSchema, "content"> = {},
    options: Options<typeof CaptureMemoryRequestSchema, "message"> = {},
  ): Promise<CaptureMemoryResponse> {
    const message = { ...fields, content: text };
    return this.write(options, (request, call) => this.services.memories.captureMemory({ ...request, message }, call));
  }

  /** Returns the session with this id; without one, the service makes an id when the session is opened. */
  session(sessionId = this.scope.sessionId ?? ""): Session {
    return new Session(this.scoped({ sessionId }));
  }

  /**
   * Watches the memories of the scope. Returns when the watch has begun: from then on it yields every committed change
   * once, in commit order, and reconnects by itself.
   */
  watch(options: WatchOptions = {}): Promise<Watch> {
    return Watch.begin(this.services.memories, this.scope, this.address, this.ending.signal, options);
  }

  /** @internal */
  read<O extends CallOptions, R>(
    options: O,
    call: (request: Omit<O, "timeoutMs" | "signal"> & { scope: Scope }, options: ConnectCallOptions) => Promise<R>,
  ): Promise<R> {
    const { timeoutMs = this.timeoutMs, signal, ...request } = options;
    return attempt(this.address, timeoutMs, signal, this.ending.signal, (each) =>
      call({ ...request, scope: this.scope }, each),
    );
  }

  /** @internal */
  write<O extends CallOptions & { readonly requestId?: string }, R>(
    options: O,
    call: (
      request: Omit<O, "timeoutMs" | "signal"> & { scope: Scope; requestId: string },
      options: ConnectCallOptions,
    ) => Promise<R>,
  ): Promise<R> {
    const requestId = options.requestId ?? randomId();
    return this.read(options, (request, each) => call({ ...request, requestId }, each));
  }
}

function by(name: MemoryName): { case: "id" | "key"; value: string } {
  return typeof name === "string" ? { case: "id", value: name } : { case: "key", value: name.key };
}

/** Returns the paths of the given fields, whose names in the API are in snake case. */
function mask(changes: object, clear: readonly string[]): FieldMask {
  const paths = Object.keys(changes).map((name) => MemorySchema.field[name as never]?.["name"] ?? name);
  return create(FieldMaskSchema, { paths: [...paths, ...clear] });
}

function withoutUndefined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

/** Returns a random UUID. `crypto.randomUUID` exists in secure contexts only: not in pages of plain http. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
