// Names that every entry of the package exports.

export type { CallOptions } from "./calls.js";
export {
  type ClientOptions,
  DEFAULT_ADDRESS,
  type Fields,
  type MemoryFields,
  type MemoryName,
  Memsvc,
  type Options,
  type Scope,
  Services,
} from "./client.js";
export { Context } from "./context.js";
export { MemsvcError, type Reason, type StatusCode, type Violation } from "./errors.js";
export { ErrorReason } from "./gen/memsvc/v1/errors_pb.js";
export * from "./gen/memsvc/v1/filters_pb.js";
export { type MemoryChange, MemoryChangeAction, WatchEffect, WatchStart } from "./gen/memsvc/v1/memory_service_pb.js";
export {
  type BuildContextResponse,
  CitationStyle,
  type ContextItem,
  ContextSection,
  type Hit,
  SearchMode,
  type SearchResponse,
} from "./gen/memsvc/v1/search_service_pb.js";
export { SessionAutoTrim, SessionOnOpen, SessionState } from "./gen/memsvc/v1/session_service_pb.js";
export {
  type ChatMessage,
  ConflictPolicy,
  type Memory,
  MemoryKind,
  MemoryLayer,
  MemoryOrigin,
  MemoryStatus,
  MemoryTier,
  MessageRole,
  OnDuplicate,
  WaitFor,
  WriteOutcome,
} from "./gen/memsvc/v1/types_pb.js";
export { type Message, Session } from "./session.js";
export { Watch, type WatchEvent, type WatchOptions } from "./watch.js";
