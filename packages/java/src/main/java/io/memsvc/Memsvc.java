package io.memsvc;

import com.google.protobuf.FieldMask;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.AbstractBlockingStub;
import io.grpc.stub.MetadataUtils;
import io.memsvc.v1.AdminServiceGrpc;
import io.memsvc.v1.BuildContextRequest;
import io.memsvc.v1.CaptureMemoryRequest;
import io.memsvc.v1.CaptureMemoryResponse;
import io.memsvc.v1.ChatMessage;
import io.memsvc.v1.CreateMemoryRequest;
import io.memsvc.v1.CreateMemoryResponse;
import io.memsvc.v1.DeleteMemoryRequest;
import io.memsvc.v1.DeleteMemoryResponse;
import io.memsvc.v1.FileServiceGrpc;
import io.memsvc.v1.GetMemoryRequest;
import io.memsvc.v1.LifecycleServiceGrpc;
import io.memsvc.v1.Memory;
import io.memsvc.v1.MemoryServiceGrpc;
import io.memsvc.v1.Scope;
import io.memsvc.v1.SearchRequest;
import io.memsvc.v1.SearchResponse;
import io.memsvc.v1.SearchServiceGrpc;
import io.memsvc.v1.SessionServiceGrpc;
import io.memsvc.v1.UpdateMemoryRequest;
import io.memsvc.v1.UpdateMemoryResponse;
import io.memsvc.v1.WatchMemoriesRequest;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Collection;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Consumer;

/**
 * A connection to a memory service, for one user and project. It may be used by several threads.
 *
 * <p>The methods take what a call is about, and a consumer that sets further fields of the request. Every write carries a
 * request id, so that a repeated call is applied once. A failed call throws {@link MemsvcException}.
 */
public final class Memsvc implements AutoCloseable {
  /** The address at which a service listens by default. */
  public static final String DEFAULT_ADDRESS = "127.0.0.1:50051";

  private static final int MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
  private static final String KEY_VARIABLE = "MEMSVC_API_KEY";
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final Connection connection;
  private final Duration timeout;
  private final Scope scope;
  private final Services services;

  /**
   * The generated blocking stubs of all services. Their calls have no deadline, are not repeated, and throw
   * StatusRuntimeException, which {@link MemsvcException#of} decodes. They lack the methods whose requests are a stream:
   * see {@link Memsvc#channel}.
   */
  public record Services(
      MemoryServiceGrpc.MemoryServiceBlockingStub memories,
      SearchServiceGrpc.SearchServiceBlockingStub searches,
      SessionServiceGrpc.SessionServiceBlockingStub sessions,
      FileServiceGrpc.FileServiceBlockingStub files,
      LifecycleServiceGrpc.LifecycleServiceBlockingStub lifecycle,
      AdminServiceGrpc.AdminServiceBlockingStub admin) {}

  private Memsvc(Connection connection, Duration timeout, Scope scope, Services services) {
    this.connection = connection;
    this.timeout = timeout;
    this.scope = scope;
    this.services = services;
  }

  /** Returns a client of the service at "HOST:PORT" for one user; it connects with the first call. */
  public static Memsvc connect(String address, String userId) {
    return builder(address, userId).connect();
  }

  /** Returns a client of the service at "HOST:PORT" for one user and project; it connects with the first call. */
  public static Memsvc connect(String address, String userId, String projectId) {
    return builder(address, userId).projectId(projectId).connect();
  }

  /** Returns a builder of clients. */
  public static Builder builder(String address, String userId) {
    return new Builder(address, userId);
  }

  /** Options of a client. */
  public static final class Builder {
    private final String address;
    private final Scope.Builder scope = Scope.newBuilder();
    private Duration timeout = Duration.ofSeconds(30);
    private String apiKey = Optional.ofNullable(System.getenv(KEY_VARIABLE)).orElse("");
    private Optional<Tls> tls = Optional.empty();

    private Builder(String address, String userId) {
      this.address = address;
      scope.setUserId(userId);
    }

    /** Sets the project of the calls. */
    public Builder projectId(String projectId) {
      scope.setProjectId(projectId);
      return this;
    }

    /** Sets the agent of the calls. */
    public Builder agentId(String agentId) {
      scope.setAgentId(agentId);
      return this;
    }

    /** Sets the session of the calls. */
    public Builder sessionId(String sessionId) {
      scope.setSessionId(sessionId);
      return this;
    }

    /** Sets the key that is sent with every call; without it that of the variable MEMSVC_API_KEY is. */
    public Builder apiKey(String apiKey) {
      this.apiKey = apiKey;
      return this;
    }

    /** Sets the deadline of every call, all attempts included; without it 30 seconds. */
    public Builder timeout(Duration timeout) {
      this.timeout = timeout;
      return this;
    }

    /** Encrypts the connection. */
    public Builder tls(Tls tls) {
      this.tls = Optional.of(tls);
      return this;
    }

    /**
     * Returns the client; it connects with the first call.
     *
     * @throws IllegalArgumentException the address is not HOST:PORT
     * @throws UncheckedIOException a file of TLS cannot be read
     */
    public Memsvc connect() {
      if (!address.matches("(\\[[0-9A-Fa-f:.]+\\]|[^\\s/:]+):[0-9]{1,5}")) {
        throw new IllegalArgumentException("The address \"%s\" is not HOST:PORT.".formatted(address));
      }
      ManagedChannelBuilder<?> builder =
          Grpc.newChannelBuilder(address, credentials())
              .maxInboundMessageSize(MAX_MESSAGE_BYTES)
              .keepAliveTime(2, TimeUnit.MINUTES)
              .keepAliveTimeout(20, TimeUnit.SECONDS)
              .proxyDetector(target -> null)
              .disableRetry(); // Attempts repeats calls
      if (!apiKey.isBlank()) {
        Metadata headers = new Metadata();
        headers.put(AUTHORIZATION, "Bearer " + apiKey.strip());
        builder.intercept(MetadataUtils.newAttachHeadersInterceptor(headers));
      }
      ManagedChannel channel = builder.build();
      Services services =
          new Services(
              MemoryServiceGrpc.newBlockingStub(channel),
              SearchServiceGrpc.newBlockingStub(channel),
              SessionServiceGrpc.newBlockingStub(channel),
              FileServiceGrpc.newBlockingStub(channel),
              LifecycleServiceGrpc.newBlockingStub(channel),
              AdminServiceGrpc.newBlockingStub(channel));
      return new Memsvc(new Connection(channel, address), timeout, scope.build(), services);
    }

    private ChannelCredentials credentials() {
      if (tls.isEmpty()) {
        return InsecureChannelCredentials.create();
      }
      TlsChannelCredentials.Builder credentials = TlsChannelCredentials.newBuilder();
      try {
        if (tls.get().ca().isPresent()) {
          credentials.trustManager(tls.get().ca().get().toFile());
        }
        if (tls.get().certificate().isPresent()) {
          File key = tls.get().key().orElseThrow(() -> new IllegalArgumentException("A certificate needs a key.")).toFile();
          credentials.keyManager(tls.get().certificate().get().toFile(), key);
        }
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
      return credentials.build();
    }
  }

  /** Returns the generated stubs. */
  public Services services() {
    return services;
  }

  /**
   * Returns the connection, which sends the API key, for stubs of other kinds, such as {@code
   * FileServiceGrpc.newBlockingV2Stub(memory.channel())}. The methods whose requests are a stream need one: UploadFile,
   * IngestDocument, ImportMemories and ImportUser.
   */
  public Channel channel() {
    return connection.channel();
  }

  /** Returns the scope of the calls. */
  public Scope scope() {
    return scope;
  }

  /** Returns a client of the same connection with a changed scope, such as another project. */
  public Memsvc scoped(Consumer<Scope.Builder> set) {
    Scope.Builder changed = scope.toBuilder();
    set.accept(changed);
    return new Memsvc(connection, timeout, changed.build(), services);
  }

  /** Stores one memory. */
  public CreateMemoryResponse create(String content) {
    return create(content, memory -> {});
  }

  /** Stores one memory, whose fields a consumer sets; under an existing key, updates that one. */
  public CreateMemoryResponse create(String content, Consumer<Memory.Builder> set) {
    Memory.Builder memory = Memory.newBuilder().setContent(content);
    set.accept(memory);
    return create(memory.build(), request -> {});
  }

  /** Stores one memory; under an existing key, updates that one. A consumer sets further fields of the request. */
  public CreateMemoryResponse create(Memory memory, Consumer<CreateMemoryRequest.Builder> set) {
    CreateMemoryRequest.Builder request =
        CreateMemoryRequest.newBuilder().setScope(scope).setMemory(memory).setRequestId(newId());
    set.accept(request);
    return call(services.memories(), (stub, each) -> stub.createMemory(each), request.build());
  }

  /** Returns the memory with an id. */
  public Memory get(String id) {
    return get(request -> request.setId(id));
  }

  /** Returns the memory with a key in the client's project. */
  public Memory getByKey(String key) {
    return get(request -> request.setKey(key));
  }

  /** Returns the memory that the request names. */
  public Memory get(Consumer<GetMemoryRequest.Builder> set) {
    GetMemoryRequest.Builder request = GetMemoryRequest.newBuilder().setScope(scope);
    set.accept(request);
    return call(services.memories(), (stub, each) -> stub.getMemory(each), request.build()).getMemory();
  }

  /** Changes the fields that paths name, such as "content", of the memory with the id, or else the key, of a memory. */
  public UpdateMemoryResponse update(Memory memory, Collection<String> paths) {
    return update(memory, paths, request -> {});
  }

  /** Changes a memory as {@link #update(Memory, Collection)} does. A consumer sets further fields of the request. */
  public UpdateMemoryResponse update(
      Memory memory, Collection<String> paths, Consumer<UpdateMemoryRequest.Builder> set) {
    UpdateMemoryRequest.Builder request =
        UpdateMemoryRequest.newBuilder()
            .setScope(scope)
            .setMemory(memory)
            .setUpdateMask(FieldMask.newBuilder().addAllPaths(paths))
            .setRequestId(newId());
    set.accept(request);
    return call(services.memories(), (stub, each) -> stub.updateMemory(each), request.build());
  }

  /** Deletes the memory with an id so that it can be restored. */
  public DeleteMemoryResponse delete(String id) {
    return delete(request -> request.setId(id));
  }

  /** Deletes the memory that the request names, by its id or its key. */
  public DeleteMemoryResponse delete(Consumer<DeleteMemoryRequest.Builder> set) {
    DeleteMemoryRequest.Builder request = DeleteMemoryRequest.newBuilder().setScope(scope).setRequestId(newId());
    set.accept(request);
    return call(services.memories(), (stub, each) -> stub.deleteMemory(each), request.build());
  }

  /** Returns the memories that fit a query, best first. */
  public SearchResponse search(String query) {
    return search(query, request -> {});
  }

  /** Returns the memories that fit a query, best first. A consumer sets further fields of the request. */
  public SearchResponse search(String query, Consumer<SearchRequest.Builder> set) {
    SearchRequest.Builder request = SearchRequest.newBuilder().setScope(scope).setQuery(query);
    set.accept(request);
    return call(services.searches(), (stub, each) -> stub.search(each), request.build());
  }

  /** Builds the context for a query; see {@link #context(String, Consumer)}. */
  public Context context(String query) {
    return context(query, request -> {});
  }

  /**
   * Builds the context for a query: {@link Context#text} returns it as one text, iteration yields its events as they come.
   * A consumer sets further fields of the request.
   */
  public Context context(String query, Consumer<BuildContextRequest.Builder> set) {
    BuildContextRequest.Builder request = BuildContextRequest.newBuilder().setScope(scope).setQuery(query);
    set.accept(request);
    return new Context(services.searches(), request.build(), connection, timeout);
  }

  /** Captures memories from a text that was said; the response has a decision for each of its statements. */
  public CaptureMemoryResponse capture(String text) {
    return capture(text, request -> {});
  }

  /** Captures memories from a text that was said. A consumer sets further fields of the request. */
  public CaptureMemoryResponse capture(String text, Consumer<CaptureMemoryRequest.Builder> set) {
    CaptureMemoryRequest.Builder request =
        CaptureMemoryRequest.newBuilder()
            .setScope(scope)
            .setMessage(ChatMessage.newBuilder().setContent(text))
            .setRequestId(newId());
    set.accept(request);
    return call(services.memories(), (stub, each) -> stub.captureMemory(each), request.build());
  }

  /** Returns the session with an id. With an empty id, {@link Session#open} has the service make one. */
  public Session session(String id) {
    return new Session(scoped(each -> each.setSessionId(id)));
  }

  /** Watches the memories of the scope from now on; see {@link #watch(Consumer)}. */
  public Watch watch() {
    return watch(request -> {});
  }

  /**
   * Watches the memories of the scope. Returns when the watch has begun: from then on it yields every committed change
   * once, in commit order, and reconnects by itself. A consumer sets further fields of the request.
   */
  public Watch watch(Consumer<WatchMemoriesRequest.Builder> set) {
    WatchMemoriesRequest.Builder request = WatchMemoriesRequest.newBuilder().setScope(scope);
    set.accept(request);
    return new Watch(services.memories(), request, connection);
  }

  /** Ends the connection. Calls and watches under way, and later ones, fail with the code CANCELLED. */
  @Override
  public void close() {
    connection.channel().shutdownNow();
  }

  <S extends AbstractBlockingStub<S>, Q, R> R call(S stub, BiFunction<S, Q, R> method, Q request) {
    return Attempts.run(
        connection,
        Optional.of(timeout),
        left -> method.apply(stub.withDeadlineAfter(left.orElseThrow().toNanos(), TimeUnit.NANOSECONDS), request));
  }

  static String newId() {
    return UUID.randomUUID().toString();
  }
}
