// What the service tells of a call that failed.

import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectError } from "@connectrpc/connect";

import {
  type BadRequest_FieldViolation,
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";

export class Failure {
  private constructor(
    readonly code: Code,
    /** The name of a value of ErrorReason; empty when the service did not say, as when nobody answers. */
    readonly reason: string,
    readonly message: string,
    /** All rules that the request broke, each with its field. */
    readonly violations: readonly BadRequest_FieldViolation[],
    /** How long to wait before another try, when the service said so. */
    readonly retryAfterMs: number | undefined,
  ) {}

  /** Reads the details of an error. */
  static of(error: ConnectError): Failure {
    const [info] = error.findDetails(ErrorInfoSchema);
    const [broken] = error.findDetails(BadRequestSchema);
    const [retry] = error.findDetails(RetryInfoSchema);
    return new Failure(
      error.code,
      info?.reason ?? "",
      error.rawMessage,
      broken?.fieldViolations ?? [],
      retry?.retryDelay && durationMs(retry.retryDelay),
    );
  }

  toString(): string {
    const lines = this.violations.map(({ field, description }) => `\n  ${field}: ${description}`);
    return `${Code[this.code]} ${this.reason}: ${this.message}${lines.join("")}`;
  }
}
