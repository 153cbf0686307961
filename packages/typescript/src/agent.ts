// Parts that adapters of agent frameworks share: tools for a model, contexts for a prompt, and turns of a conversation.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";

import type { CallOptions } from "./calls.js";
import type { Memsvc } from "./client.js";
import { MemsvcError } from "./errors.js";
import { type FilterExpressionSchema, FilterField, FilterOperator } from "./gen/memsvc/v1/filters_pb.js";
import type { Hit } from "./gen/memsvc/v1/search_service_pb.js";
import { Currency, MemoryKind, MessageRole } from "./gen/memsvc/v1/types_pb.js";
import type { Session } from "./session.js";

/** Kinds of memories that a model may give to a statement. */
export const STATEMENT_KINDS = ["FACT", "PREFERENCE", "EXPERIENCE", "DECISION", "TASK", "NOTE"] as const;
export type StatementKind = (typeof STATEMENT_KINDS)[number];

const DEFAULT_HITS = 5;
const MOST_HITS = 20;
const SNIPPET_CHARS = 2_000;
const MOST_QUERY_CHARS = 8_192;
const MOST_MESSAGE_CHARS = 100_000;
const DEFAULT_TOKENS = 1_000;
/** A memory as a tool returns it to a model. */
export interface RecalledMemory {
  readonly id: string;
  /** The content, or of a long one the passage that fits. */
  readonly statement: string;
  /** The day on which it happened, or else was stored. */
  readonly date: string;
  /** "outdated", "possibly outdated" or "conflicted"; absent if nothing newer is known to replace the memory. */
  readonly currency?: string;
  /** The id of the memory that replaces it, if it is known. */
  readonly newer_id?: string;
}

/** Returns the memories that fit a query, best first; 1 to 20 of them. Outdated ones are marked. */
export async function recall(
  memory: Memsvc,
  query: string,
  limit: number = DEFAULT_HITS,
  options: CallOptions = {},
): Promise<RecalledMemory[]> {
  const asked = Math.min(Math.max(Math.trunc(limit), 1), MOST_HITS);
  const { hits } = await explained(
    memory.search(query, { ...options, limit: asked, snippetChars: SNIPPET_CHARS, judgeCurrency: true }),
  );
  return hits.map(recalled);
}

function recalled({ memory, snippet, currency, newerMemoryId }: Hit): RecalledMemory {
  const moment = memory?.eventTime ?? memory?.createTime;
  const content = memory?.content ?? "";
  const isCurrent = currency === Currency.UNSPECIFIED || currency === Currency.CURRENT;
  return {
    id: memory?.id ?? "",
    statement: content.length <= SNIPPET_CHARS ? content : snippet,
    date: moment === undefined ? "" : timestampDate(moment).toISOString().slice(0, 10),
    ...(!isCurrent && { currency: (Currency[currency] ?? "outdated").replaceAll("_", " ").toLowerCase() }),
    ...(newerMemoryId !== "" && { newer_id: newerMemoryId }),
  };
}

/** Stores a statement, in place of an outdated memory if *replaces* is the id of one; returns its id. */
export async function remember(
  memory: Memsvc,
  statement: string,
  fields: { readonly kind?: StatementKind | undefined; readonly replaces?: string | undefined; readonly source?: string },
  options: CallOptions = {},
): Promise<string> {
  const { kind, replaces, source = "" } = fields;
  const content = { source, ...(kind && { kind: MemoryKind[kind] }) };
  if (!replaces) {
    const stored = await explained(memory.create(statement, content, options));
    return stored.memory?.id ?? "";
  }
  const by = { case: "id", value: replaces } as const;
  const successor = { ...content, content: statement };
  const stored = await explained(
    memory.write(options, (request, call) =>
      memory.services.memories.supersedeMemory({ ...request, by, memory: successor }, call),
    ),
  );
  return stored.memory?.id ?? "";
}

/** Deletes a memory so that it can be restored; returns whether there was one. */
export async function forget(memory: Memsvc, id: string, options: CallOptions = {}): Promise<boolean> {
  try {
    await explained(memory.delete(id, options));
    return true;
  } catch (error) {
    if (error instanceof MemsvcError && error.code === "NOT_FOUND") {
      return false;
    }
    throw error;
  }
}

/** Options of a context for the next answer in a conversation. */
export interface TurnContextOptions extends CallOptions {
  /** The budget of the context; 1 000 tokens without it. */
  readonly totalTokens?: number | undefined;
  /** The session of the conversation: its own messages are left out. */
  readonly sessionId?: string | undefined;
}

/** Returns the memories that an answer to *query* needs, as Markdown; "" if there are none. Outdated ones are marked. */
export async function turnContext(memory: Memsvc, query: string, options: TurnContextOptions = {}): Promise<string> {
  const { totalTokens = DEFAULT_TOKENS, sessionId, ...call } = options;
  // From outside the session, its private messages are evidence of an earlier conversation, which the filter excludes.
  const scope = { ...memory.scope, sessionId: "" };
  const asked = { totalTokens, ...(sessionId && { filter: { where: outside(sessionId) } }) };
  const reply = await memory.read(call, (request, each) =>
    memory.services.searches.renderContext(
      { ...request, scope, query: cut(query, MOST_QUERY_CHARS), options: asked },
      each,
    ),
  );
  return reply.citations.length === 0 ? "" : reply.markdown;
}

function outside(sessionId: string): MessageInitShape<typeof FilterExpressionSchema> {
  const value = {
    field: FilterField.SESSION_ID,
    operator: FilterOperator.NOT_EQUALS,
    values: [{ kind: { case: "stringValue" as const, value: sessionId } }],
  };
  return { node: { case: "condition", value } };
}

/** Texts of a user and of the answer to them. */
export interface Turn {
  readonly user: string;
  readonly assistant: string;
}

/** Options of the storage of turns. */
export interface StoreTurnOptions extends CallOptions {
  /** Extract memories from what the user said; true without it. */
  readonly capture?: boolean | undefined;
  /** The source of the extracted memories. */
  readonly source?: string | undefined;
}

/**
 * Appends a turn to a session, which is created or opened again if need be, and extracts memories from what the user
 * said. Texts of more than 100 000 characters are cut.
 */
export async function storeTurn(
  memory: Memsvc,
  sessionId: string,
  turn: Turn,
  options: StoreTurnOptions = {},
): Promise<void> {
  const { capture = true, source = "", ...call } = options;
  const user = cut(turn.user, MOST_MESSAGE_CHARS);
  const messages = [
    { role: MessageRole.USER, content: user },
    { role: MessageRole.ASSISTANT, content: cut(turn.assistant, MOST_MESSAGE_CHARS) },
  ].filter(({ content }) => content.trim() !== "");
  if (messages.length === 0) {
    return;
  }
  const session = memory.session(sessionId);
  try {
    await session.append(messages, call);
  } catch (error) {
    await makeActive(session, error, call);
    await session.append(messages, call);
  }
  if (capture && user.trim() !== "") {
    await memory.capture(user, { role: MessageRole.USER }, { ...call, source });
  }
}

/** Creates a session, or opens it again, if that is why an append failed; otherwise throws the error. */
async function makeActive(session: Session, error: unknown, call: CallOptions): Promise<void> {
  if (error instanceof MemsvcError && error.reason === "SESSION_NOT_FOUND") {
    await session.open(call).catch((failed: unknown) => {
      if (!(failed instanceof MemsvcError && failed.code === "ALREADY_EXISTS")) {
        throw failed;
      }
    });
  } else if (error instanceof MemsvcError && error.reason === "SESSION_NOT_ACTIVE") {
    await session.memory.write(call, (request, each) =>
      session.memory.services.sessions.reopenSession(request, each),
    );
  } else {
    throw error;
  }
}

/** Adds the violations to the message of a refused request, so that a model reads what to correct. */
async function explained<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof MemsvcError) || error.violations.length === 0) {
      throw error;
    }
    const { code, reason, violations, metadata, retryAfterMs } = error;
    throw new MemsvcError(code, error.toString(), reason, violations, metadata, retryAfterMs, { cause: error });
  }
}

/**
 * Returns the beginning of a text as the service accepts it: well-formed, without NUL, and without images in Markdown,
 * which would become files.
 */
function cut(text: string, most: number): string {
  const safe = text.slice(0, most).replace(/\p{Surrogate}/gu, "").replaceAll("\0", " ");
  return safe.replaceAll("](data:", "] (data:").slice(0, most);
}
