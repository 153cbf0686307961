// What the service tells of a call that failed.

import { setTimeout as pause } from "node:timers/promises";

import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

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

/**
 * Makes a call again after the delay that the service asks for, as it does when a key's rate is used up, until the
 * patience is over.
 */
export async function patiently<T>(patienceMs: number, call: () => Promise<T>): Promise<T> {
  const end = performance.now() + patienceMs;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const { retryAfterMs } = Failure.of(ConnectError.from(error));
      if (retryAfterMs === undefined || performance.now() + retryAfterMs > end) {
        throw error;
      }
      await pause(retryAfterMs);
    }
  }
}
