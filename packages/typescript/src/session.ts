// Sessions: conversations with ordered messages.

import type { Fields, Memsvc, Options } from "./client.js";
import type {
  AppendMessagesRequestSchema,
  AppendMessagesResponse,
  CloseSessionRequestSchema,
  CloseSessionResponse,
  CreateSessionRequestSchema,
} from "./gen/memsvc/v1/session_service_pb.js";
import { type ChatMessageSchema, MessageRole } from "./gen/memsvc/v1/types_pb.js";

/** A message of a conversation; without a role it is one of the user. */
export type Message = string | Fields<typeof ChatMessageSchema>;

/** A session of a client. */
export class Session {
  constructor(
    /** A client whose calls belong to the session: its contexts contain the messages. */
    public memory: Memsvc,
  ) {}

  get id(): string {
    return this.memory.scope.sessionId ?? "";
  }

  /** Creates the session; one that exists is an error with the code ALREADY_EXISTS. */
  async open(options: Options<typeof CreateSessionRequestSchema> = {}): Promise<this> {
    const { session } = await this.memory.write(options, (request, call) =>
      this.memory.services.sessions.createSession(request, call),
    );
    const sessionId = session?.scope?.sessionId;
    if (sessionId !== undefined && sessionId !== this.id) {
      this.memory = this.memory.scoped({ sessionId });
    }
    return this;
  }

  /** Appends 1 to 100 messages, all or none, in order; they are durable when this returns. */
  append(
    messages: readonly Message[],
    options: Options<typeof AppendMessagesRequestSchema, "messages"> = {},
  ): Promise<AppendMessagesResponse> {
    const shaped = messages.map((message) => ({
      role: MessageRole.USER,
      ...(typeof message === "string" ? { content: message } : message),
    }));
    return this.memory.write(options, (request, call) =>
      this.memory.services.sessions.appendMessages({ ...request, messages: shaped }, call),
    );
  }

  /** Ends the session, which stays readable. `flush.results` of the response lists the memories extracted from it. */
  close(options: Options<typeof CloseSessionRequestSchema> = {}): Promise<CloseSessionResponse> {
    return this.memory.write(options, (request, call) => this.memory.services.sessions.closeSession(request, call));
  }
}
