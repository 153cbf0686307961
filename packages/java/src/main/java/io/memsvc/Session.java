package io.memsvc;

import io.memsvc.v1.AppendMessagesRequest;
import io.memsvc.v1.AppendMessagesResponse;
import io.memsvc.v1.ChatMessage;
import io.memsvc.v1.CloseSessionRequest;
import io.memsvc.v1.CloseSessionResponse;
import io.memsvc.v1.CreateSessionRequest;
import io.memsvc.v1.MessageRole;
import java.util.List;
import java.util.function.Consumer;

/** A conversation: ordered messages, private to it. */
public final class Session {
  private Memsvc memory;

  Session(Memsvc memory) {
    this.memory = memory;
  }

  /** Returns the id of the session. */
  public String id() {
    return memory.scope().getSessionId();
  }

  /** Returns a client whose calls belong to the session: its contexts contain the messages. */
  public Memsvc memory() {
    return memory;
  }

  /** Creates the session; one that exists is an exception with the code ALREADY_EXISTS. */
  public Session open() {
    return open(request -> {});
  }

  /** Creates the session. A consumer sets further fields of the request. */
  public Session open(Consumer<CreateSessionRequest.Builder> set) {
    CreateSessionRequest.Builder request =
        CreateSessionRequest.newBuilder().setScope(memory.scope()).setRequestId(Memsvc.newId());
    set.accept(request);
    String id =
        memory
            .call(memory.services().sessions(), (stub, each) -> stub.createSession(each), request.build())
            .getSession()
            .getScope()
            .getSessionId();
    memory = memory.scoped(each -> each.setSessionId(id));
    return this;
  }

  /** Appends messages of the user. */
  public AppendMessagesResponse append(String... contents) {
    return append(List.of(contents).stream().map(each -> ChatMessage.newBuilder().setContent(each).build()).toList());
  }

  /**
   * Appends 1 to 100 messages, all or none, in order; they are durable when this returns. Messages without a role are those
   * of the user.
   */
  public AppendMessagesResponse append(List<ChatMessage> messages) {
    return append(messages, request -> {});
  }

  /** Appends messages as {@link #append(List)} does. A consumer sets further fields of the request. */
  public AppendMessagesResponse append(List<ChatMessage> messages, Consumer<AppendMessagesRequest.Builder> set) {
    AppendMessagesRequest.Builder request =
        AppendMessagesRequest.newBuilder()
            .setScope(memory.scope())
            .addAllMessages(messages.stream().map(Session::withRole).toList())
            .setRequestId(Memsvc.newId());
    set.accept(request);
    return memory.call(memory.services().sessions(), (stub, each) -> stub.appendMessages(each), request.build());
  }

  private static ChatMessage withRole(ChatMessage message) {
    return message.getRole() == MessageRole.MESSAGE_ROLE_UNSPECIFIED
        ? message.toBuilder().setRole(MessageRole.MESSAGE_ROLE_USER).build()
        : message;
  }

  /** Ends the session, which stays readable. The flush of the response lists the memories extracted from it. */
  public CloseSessionResponse close() {
    return close(request -> {});
  }

  /** Ends the session. A consumer sets further fields of the request. */
  public CloseSessionResponse close(Consumer<CloseSessionRequest.Builder> set) {
    CloseSessionRequest.Builder request =
        CloseSessionRequest.newBuilder().setScope(memory.scope()).setRequestId(Memsvc.newId());
    set.accept(request);
    return memory.call(memory.services().sessions(), (stub, each) -> stub.closeSession(each), request.build());
  }
}
