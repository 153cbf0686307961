// Failed calls as one error with code, reason, metadata and violations.

import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { ErrorReason } from "./gen/memsvc/v1/errors_pb.js";

const DOMAIN = "memsvc";
const REASON_PREFIX = "ERROR_REASON_";
/** The message that Connect begins with if a value of the caller has no form on the wire. */
const UNENCODABLE = "serialize binary: ";

/** The name of a gRPC status code. */
export type StatusCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

/** The name of a value of ErrorReason without its prefix; a newer service may send others. */
export type Reason = Exclude<keyof typeof ErrorReason, "UNSPECIFIED"> | "" | (string & {});

/** One rule that a request broke: the path of the field, and the rule. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

/** A call failed. */
export class MemsvcError extends Error {
  override readonly name = "MemsvcError";

  constructor(
    /** The gRPC status code. */
    readonly code: StatusCode,
    message: string,
    /** The finer reason, such as "MEMORY_NOT_FOUND"; empty if the service could not be reached. */
    readonly reason: Reason = "",
    /** All rules that the request broke, if the code is INVALID_ARGUMENT. */
    readonly violations: readonly Violation[] = [],
    /** Values that ErrorReason documents for the reason, such as the present revision. */
    readonly metadata: Readonly<Record<string, string>> = {},
    /** The delay before another attempt, if the service sent one. */
    readonly retryAfterMs: number | undefined = undefined,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Decodes the error of a generated client, such as those of `services`; a MemsvcError is returned as it is. */
  static from(cause: unknown): MemsvcError {
    return toMemsvcError(cause);
  }

  /** Returns everything in one line. */
  override toString(): string {
    const broken = this.violations.map(({ field, description }) => `${field}: ${description}`).join("; ");
    return `${this.reason || this.code}: ${broken || this.message}`;
  }
}

/** Returns the error of a call whose client was closed before it, or while it was under way. */
export function clientClosed(cause: unknown): MemsvcError {
  return new MemsvcError("CANCELLED", "The client is closed.", "", [], {}, undefined, { cause });
}

/** Decodes an error of a transport. *address*, if given, is named if the service could not be reached. */
export function toMemsvcError(cause: unknown, address = ""): MemsvcError {
  if (cause instanceof MemsvcError) {
    return cause;
  }
  const error = ConnectError.from(cause);
  if (error.rawMessage.startsWith(UNENCODABLE)) {
    const fault = error.rawMessage.slice(UNENCODABLE.length).replace("cannot encode field ", "");
    return new MemsvcError("INVALID_ARGUMENT", `The request cannot be encoded: ${fault}`, "", [], {}, undefined, {
      cause: error,
    });
  }
  const [info] = error.findDetails(ErrorInfoSchema);
  const [broken] = error.findDetails(BadRequestSchema);
  const [retry] = error.findDetails(RetryInfoSchema);
  const isOurs = info?.domain === DOMAIN;
  const isUnreachable = info === undefined && isConnectionError(error);
  return new MemsvcError(
    isUnreachable ? "UNAVAILABLE" : codeName(error.code),
    isUnreachable ? `No service can be reached${address && ` at ${address}`}: ${connectionFailure(error)}.` : error.rawMessage,
    isOurs ? info.reason.replace(REASON_PREFIX, "") : "",
    broken?.fieldViolations.map(({ field, description }) => ({ field, description })) ?? [],
    isOurs ? info.metadata : {},
    retry?.retryDelay && durationMs(retry.retryDelay),
    { cause: error },
  );
}

/**
 * Returns whether the connection failed. `fetch` reports that as a TypeError, which Connect codes as Unknown or Internal;
 * the HTTP/2 of Node.js reports a connection that is closed during a call as a reset stream, most often Canceled.
 */
function isConnectionError(error: ConnectError): boolean {
  if (error.code === Code.Unavailable) {
    return true;
  }
  const isFetch = error.cause instanceof TypeError && error.code !== Code.InvalidArgument;
  const isNode = systemCode(error.cause) !== undefined;
  return isFetch || isNode || error.rawMessage.startsWith("http/2 stream closed");
}

function connectionFailure(error: ConnectError): string {
  const { cause } = error;
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const code = systemCode(inner);
  if (code === "ERR_HTTP2_STREAM_ERROR") {
    return "the stream was reset; the address must be http.address of the service, not that of gRPC";
  }
  return code === "ECONNREFUSED" ? "connection refused" : (code ?? error.rawMessage);
}

function systemCode(cause: unknown): string | undefined {
  const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? code : undefined;
}

function codeName(code: Code): StatusCode {
  const name = Code[code] ?? "Unknown";
  const words = name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
  return (words === "CANCELED" ? "CANCELLED" : words) as StatusCode;
}
