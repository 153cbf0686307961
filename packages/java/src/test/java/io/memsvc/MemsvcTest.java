package io.memsvc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.RetryInfo;
import io.grpc.BindableService;
import io.grpc.Context.CancellableContext;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import io.memsvc.v1.AppendMessagesResponse;
import io.memsvc.v1.BuildContextResponse;
import io.memsvc.v1.ChatMessage;
import io.memsvc.v1.ContextOptions;
import io.memsvc.v1.CreateMemoryRequest;
import io.memsvc.v1.CreateMemoryResponse;
import io.memsvc.v1.Memory;
import io.memsvc.v1.MemoryChange;
import io.memsvc.v1.MemoryLayer;
import io.memsvc.v1.MemoryServiceGrpc;
import io.memsvc.v1.MessageRole;
import io.memsvc.v1.RenderContextRequest;
import io.memsvc.v1.SearchRequest;
import io.memsvc.v1.SearchResponse;
import io.memsvc.v1.SearchServiceGrpc;
import io.memsvc.v1.WatchHeartbeat;
import io.memsvc.v1.WatchMemoriesRequest;
import io.memsvc.v1.WatchMemoriesResponse;
import io.memsvc.v1.WriteOutcome;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.function.Executable;

/**
 * The client against real services: that of MEMSVC_TEST_ADDRESS, and that of MEMSVC_TEST_GUARDED_ADDRESS, which asks for
 * TLS and a key.
 */
@EnabledIfEnvironmentVariable(named = "MEMSVC_TEST_ADDRESS", matches = ".+")
class MemsvcTest {
  private static final String ADDRESS = System.getenv("MEMSVC_TEST_ADDRESS");
  private static final String GUARDED = System.getenv("MEMSVC_TEST_GUARDED_ADDRESS");

  private final String user = "java-" + UUID.randomUUID();
  private Memsvc memory;

  @BeforeEach
  void connect() {
    memory = Memsvc.builder(ADDRESS, user).projectId("trip").agentId("planner").connect();
  }

  @AfterEach
  void close() {
    memory.close();
  }

  private static MemsvcException failure(Executable call) {
    return assertThrows(MemsvcException.class, call);
  }

  @Test
  void writesReadsChangesAndDeletesAMemory() {
    CreateMemoryResponse made = memory.create("The hotel is in Alfama.", each -> each.setKey("hotel").addTags("hotel"));
    assertEquals(WriteOutcome.WRITE_OUTCOME_CREATED, made.getOutcome());
    String id = made.getMemory().getId();
    assertEquals("planner", memory.getByKey("hotel").getScope().getAgentId());

    Memory change = Memory.newBuilder().setKey("hotel").setImportance(5).build();
    Memory updated = memory.update(change, List.of("importance", "tags")).getMemory();
    assertEquals(5, updated.getImportance());
    assertEquals(0, updated.getTagsCount());
    assertEquals("The hotel is in Alfama.", updated.getContent());

    memory.delete(id);
    MemsvcException missing = failure(() -> memory.get(id));
    assertEquals(Status.Code.NOT_FOUND, missing.code());
    assertEquals("MEMORY_NOT_FOUND", missing.reason());
  }

  @Test
  void appliesAWriteWithTheSameRequestIdOnce() {
    String requestId = UUID.randomUUID().toString();
    Memory seat = Memory.newBuilder().setContent("Ann wants a window seat.").build();
    CreateMemoryResponse first = memory.create(seat, request -> request.setRequestId(requestId));
    CreateMemoryResponse second = memory.create(seat, request -> request.setRequestId(requestId));
    assertEquals(first.getMemory().getId(), second.getMemory().getId());
    assertEquals(first.getOutcome(), second.getOutcome());
  }

  @Test
  void searchesAndBuildsAContextAsEventsAndAsOneText() {
    memory.create("我对花生过敏。", each -> each.setLayer(MemoryLayer.MEMORY_LAYER_CORE));
    assertEquals("我对花生过敏。", memory.search("花生", request -> request.setLimit(1)).getHits(0).getMemory().getContent());

    Context context = memory.context("Book a table", request -> request.getOptionsBuilder().setTotalTokens(400));
    RenderContextRequest request =
        RenderContextRequest.newBuilder()
            .setScope(memory.scope())
            .setQuery("Book a table")
            .setOptions(ContextOptions.newBuilder().setTotalTokens(400))
            .build();
    assertTrue(context.text().contains("我对花生过敏。"));
    assertEquals(memory.services().searches().renderContext(request).getMarkdown(), context.text());
    List<BuildContextResponse> events = new ArrayList<>();
    context.forEach(events::add);
    assertEquals(400, events.get(0).getPlan().getTotalTokens());
    assertTrue(events.get(events.size() - 1).hasSummary());
    assertEquals("INVALID_REQUEST", failure(() -> memory.context("x".repeat(9_000)).text()).reason());
  }

  @Test
  void capturesMemoriesFromAText() {
    assertEquals(1, memory.capture("I live in Hamburg.", request -> request.setDryRun(true)).getDecisionsCount());
  }

  @Test
  void holdsASession() {
    Session session = memory.session("").open(request -> request.setTitle("Dinner"));
    assertFalse(session.id().isEmpty());
    session.append("A table for two?");
    ChatMessage answer =
        ChatMessage.newBuilder().setRole(MessageRole.MESSAGE_ROLE_ASSISTANT).setContent("At eight.").build();
    String id = UUID.randomUUID().toString();
    AppendMessagesResponse appended = session.append(List.of(answer), request -> request.setRequestId(id));
    assertEquals(appended, session.append(List.of(answer), request -> request.setRequestId(id)));
    assertTrue(session.memory().context("dinner").text().contains("At eight."));
    assertEquals(session.id(), session.close(request -> request.setFlush(false)).getSession().getScope().getSessionId());
  }

  @Test
  void exceptionsHaveCodeReasonViolationsAndMetadata() {
    MemsvcException wrong = failure(() -> memory.create("", each -> each.setImportance(9).addTags("")));
    assertEquals(Status.Code.INVALID_ARGUMENT, wrong.code());
    assertEquals("INVALID_REQUEST", wrong.reason());
    assertEquals(
        List.of("memory.content", "memory.tags[0]", "memory.importance"),
        wrong.violations().stream().map(MemsvcException.Violation::field).toList());

    String id = memory.create("At revision 1.").getMemory().getId();
    Memory change = Memory.newBuilder().setId(id).setImportance(2).build();
    MemsvcException conflict =
        failure(() -> memory.update(change, List.of("importance"), request -> request.setExpectedRevision(7)));
    assertEquals(Status.Code.ABORTED, conflict.code());
    assertEquals("1", conflict.metadata().get("revision"));
  }

  @Test
  void errorsOfGeneratedStubsAreDecoded() {
    CreateMemoryRequest request =
        CreateMemoryRequest.newBuilder().setMemory(Memory.newBuilder().setContent("x").setImportance(9)).build();
    StatusRuntimeException error =
        assertThrows(StatusRuntimeException.class, () -> memory.services().memories().createMemory(request));
    MemsvcException wrong = MemsvcException.of(error);
    assertEquals("INVALID_REQUEST", wrong.reason());
    assertEquals(
        List.of("scope.user_id", "memory.importance"),
        wrong.violations().stream().map(MemsvcException.Violation::field).toList());
    assertEquals(error, wrong.getCause());

    MemsvcException lost = MemsvcException.of(Status.UNAVAILABLE.withDescription("gone").asRuntimeException());
    assertEquals("No service can be reached: gone", lost.getMessage());
  }

  @Test
  void endsACallAtItsDeadline() {
    try (Memsvc late = Memsvc.builder(ADDRESS, user).timeout(Duration.ofNanos(1)).connect()) {
      assertEquals(Status.Code.DEADLINE_EXCEEDED, failure(() -> late.search("late")).code());
    }
  }

  @Test
  void noServiceCanBeReached() {
    try (Memsvc lost = Memsvc.connect("127.0.0.1:1", user)) {
      MemsvcException error = failure(() -> lost.search("x"));
      assertEquals(Status.Code.UNAVAILABLE, error.code());
      assertTrue(error.getMessage().startsWith("No service can be reached at 127.0.0.1:1: "), error.getMessage());
    }
    for (String address : List.of("no address", "host", "http://host:1")) {
      assertThrows(IllegalArgumentException.class, () -> Memsvc.connect(address, user));
    }
  }

  @Test
  void watchesFromItsBeginOnAndAfterABrokenConnection() throws IOException {
    List<String> cursors = new ArrayList<>();
    try (Proxy proxy = new Proxy(ADDRESS);
        Memsvc watcher = Memsvc.connect(proxy.address(), user, "trip");
        Watch watch = watcher.watch()) {
      for (String content : List.of("One.", "Two.", "Three.")) {
        memory.create(content);
        Watch.Event event = watch.next();
        assertEquals(content, event.change().getMemory().getContent());
        cursors.add(event.cursor());
        proxy.cut();
      }
      watch.close();
      assertFalse(watch.hasNext());
    }
    try (Memsvc other = Memsvc.connect(ADDRESS, user, "trip");
        Watch again = other.watch(request -> request.setCursor(cursors.get(0)))) {
      assertEquals("Two.", again.next().change().getMemory().getContent());
    }
    MemsvcException wrong = failure(() -> memory.watch(request -> request.setCursor("no cursor")));
    assertEquals(Status.Code.INVALID_ARGUMENT, wrong.code());
  }

  @Test
  void callsAGuardedServiceWithAKeyAndWaitsForItsRateLimit() {
    Tls tls = Tls.ofAuthority(Path.of(System.getenv("MEMSVC_TEST_CA")));
    String key = System.getenv("MEMSVC_TEST_KEY");
    String project = UUID.randomUUID().toString();
    try (Memsvc guarded = Memsvc.builder(GUARDED, "ann").projectId(project).apiKey(key).tls(tls).connect();
        Memsvc keyless = Memsvc.builder(GUARDED, "ann").tls(tls).connect();
        Memsvc plain = Memsvc.builder(GUARDED, "ann").apiKey(key).connect()) {
      IntStream.range(0, 8).parallel().forEach(number -> guarded.create("Number %d.".formatted(number)));
      assertEquals(8, guarded.search("Number", request -> request.setLimit(10)).getHitsCount());
      assertEquals(Status.Code.UNAUTHENTICATED, failure(() -> keyless.search("x")).code());
      assertEquals(Status.Code.UNAVAILABLE, failure(() -> plain.search("x")).code());
    }
  }

  private static void cancel(StreamObserver<?> responses) {
    responses.onError(Status.CANCELLED.withDescription("Cancelled on the server side").asRuntimeException());
  }

  /** Returns a refusal with a delay. */
  private static StatusRuntimeException limited(Duration delay) {
    com.google.protobuf.Duration.Builder duration =
        com.google.protobuf.Duration.newBuilder().setSeconds(delay.getSeconds()).setNanos(delay.getNano());
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(Status.Code.RESOURCE_EXHAUSTED.value())
            .addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(duration).build()))
            .build());
  }

  @Test
  void repeatsACallThatAStoppingServiceCancels() throws IOException {
    AtomicInteger calls = new AtomicInteger();
    SearchServiceGrpc.SearchServiceImplBase searches =
        new SearchServiceGrpc.SearchServiceImplBase() {
          @Override
          public void search(SearchRequest request, StreamObserver<SearchResponse> responses) {
            if (calls.incrementAndGet() == 1 || request.getQuery().equals("always")) {
              cancel(responses);
            } else {
              responses.onNext(SearchResponse.getDefaultInstance());
              responses.onCompleted();
            }
          }
        };
    try (LocalServer server = new LocalServer(searches);
        Memsvc client = Memsvc.connect(server.address(), user)) {
      client.search("x");
      assertEquals(2, calls.get());
      assertEquals(Status.Code.CANCELLED, failure(() -> client.search("always")).code());
      assertEquals(2 + 5, calls.get());
    }
  }

  @Test
  void repeatsNoCallThatItsCallerCancels() {
    AtomicInteger attempts = new AtomicInteger();
    ManagedChannel channel = (ManagedChannel) memory.channel();
    Executable call =
        () ->
            Attempts.run(
                new Connection(channel, ADDRESS),
                Optional.empty(),
                left -> {
                  attempts.incrementAndGet();
                  return memory.services().searches().search(SearchRequest.getDefaultInstance());
                });
    CancellableContext context = io.grpc.Context.current().withCancellation();
    context.cancel(null);
    context.run(() -> assertEquals(Status.Code.CANCELLED, failure(call).code()));
    assertEquals(1, attempts.get());

    Thread.currentThread().interrupt();
    assertEquals(Status.Code.CANCELLED, failure(call).code());
    assertTrue(Thread.interrupted());
    assertEquals(2, attempts.get());
  }

  @Test
  void resumesAWatchThatAStoppingServiceCancels() throws IOException {
    List<String> cursors = new CopyOnWriteArrayList<>();
    WatchMemoriesResponse.Builder heartbeat =
        WatchMemoriesResponse.newBuilder().setHeartbeat(WatchHeartbeat.getDefaultInstance());
    WatchMemoriesResponse.Builder change =
        WatchMemoriesResponse.newBuilder().setChange(MemoryChange.getDefaultInstance());
    MemoryServiceGrpc.MemoryServiceImplBase memories =
        new MemoryServiceGrpc.MemoryServiceImplBase() {
          @Override
          public void watchMemories(WatchMemoriesRequest request, StreamObserver<WatchMemoriesResponse> responses) {
            cursors.add(request.getCursor());
            switch (cursors.size()) {
              case 1 -> cancel(responses); // before the watch has begun
              case 2 -> {
                responses.onNext(heartbeat.setCursor("begun").build());
                cancel(responses);
              }
              default -> responses.onNext(change.setCursor("changed").build());
            }
          }
        };
    try (LocalServer server = new LocalServer(memories);
        Memsvc client = Memsvc.connect(server.address(), user);
        Watch watch = client.watch()) {
      assertEquals("changed", watch.next().cursor());
      assertEquals(List.of("", "", "begun"), cursors);

      Thread.currentThread().interrupt();
      assertEquals(Status.Code.CANCELLED, failure(watch::hasNext).code());
      assertTrue(Thread.interrupted());
      assertFalse(watch.hasNext());
      assertEquals(3, cursors.size());
    }
  }

  @Test
  void beginsAWatchOnceIfNothingComes() throws IOException {
    AtomicInteger calls = new AtomicInteger();
    MemoryServiceGrpc.MemoryServiceImplBase silent =
        new MemoryServiceGrpc.MemoryServiceImplBase() {
          @Override
          public void watchMemories(WatchMemoriesRequest request, StreamObserver<WatchMemoriesResponse> responses) {
            calls.incrementAndGet();
          }
        };
    com.google.protobuf.Duration heartbeat =
        com.google.protobuf.Duration.newBuilder().setNanos(200_000_000).build();
    try (LocalServer server = new LocalServer(silent);
        Memsvc client = Memsvc.connect(server.address(), user)) {
      MemsvcException error = failure(() -> client.watch(request -> request.setHeartbeatInterval(heartbeat)));
      assertEquals(Status.Code.UNAVAILABLE, error.code());
      assertTrue(error.getMessage().endsWith("Nothing came for 600 ms."), error.getMessage());
      assertEquals(1, calls.get());
    }
  }

  @Test
  void repeatsAWatchThatTheServiceEndsBeforeItBeginsFiveTimes() throws IOException {
    AtomicInteger calls = new AtomicInteger();
    MemoryServiceGrpc.MemoryServiceImplBase ending =
        new MemoryServiceGrpc.MemoryServiceImplBase() {
          @Override
          public void watchMemories(WatchMemoriesRequest request, StreamObserver<WatchMemoriesResponse> responses) {
            calls.incrementAndGet();
            responses.onCompleted();
          }
        };
    try (LocalServer server = new LocalServer(ending);
        Memsvc client = Memsvc.connect(server.address(), user)) {
      MemsvcException error = failure(client::watch);
      assertEquals(Status.Code.UNAVAILABLE, error.code());
      assertTrue(error.getMessage().endsWith("The service ended the stream."), error.getMessage());
      assertEquals(5, calls.get());
    }
  }

  @Test
  void resumesAWatchAfterItsStreamEndsAndAfterARefusalWithADelay() throws IOException {
    AtomicInteger calls = new AtomicInteger();
    StatusRuntimeException limited = limited(Duration.ofMillis(1));
    MemoryServiceGrpc.MemoryServiceImplBase memories =
        new MemoryServiceGrpc.MemoryServiceImplBase() {
          @Override
          public void watchMemories(WatchMemoriesRequest request, StreamObserver<WatchMemoriesResponse> responses) {
            switch (calls.incrementAndGet()) {
              case 1 -> {
                responses.onNext(
                    WatchMemoriesResponse.newBuilder().setHeartbeat(WatchHeartbeat.getDefaultInstance()).build());
                responses.onCompleted();
              }
              case 2 -> responses.onError(limited);
              default ->
                  responses.onNext(
                      WatchMemoriesResponse.newBuilder()
                          .setChange(MemoryChange.getDefaultInstance())
                          .setCursor("changed")
                          .build());
            }
          }
        };
    try (LocalServer server = new LocalServer(memories);
        Memsvc client = Memsvc.connect(server.address(), user);
        Watch watch = client.watch()) {
      assertEquals("changed", watch.next().cursor());
    }
  }

  private static void assertSaysThatTheClientIsClosed(MemsvcException error) {
    assertEquals(Status.Code.CANCELLED, error.code());
    assertEquals("The client is closed.", error.getMessage());
  }

  @Test
  void everyCallOfAClosedClientSaysSoAtOnce() throws IOException {
    AtomicInteger calls = new AtomicInteger();
    AtomicReference<Memsvc> client = new AtomicReference<>();
    SearchServiceGrpc.SearchServiceImplBase searches =
        new SearchServiceGrpc.SearchServiceImplBase() {
          @Override
          public void search(SearchRequest request, StreamObserver<SearchResponse> responses) {
            calls.incrementAndGet();
            client.get().close();
          }
        };
    try (LocalServer server = new LocalServer(searches)) {
      client.set(Memsvc.connect(server.address(), user));
      assertSaysThatTheClientIsClosed(failure(() -> client.get().search("under way")));
      assertSaysThatTheClientIsClosed(failure(() -> client.get().search("later")));
      assertSaysThatTheClientIsClosed(failure(() -> client.get().context("later").text()));
      assertSaysThatTheClientIsClosed(failure(() -> client.get().watch()));
      assertEquals(1, calls.get());
    }
  }

  @Test
  void closingTheClientEndsTheDelayOfACall() throws Exception {
    CompletableFuture<Void> refused = new CompletableFuture<>();
    StatusRuntimeException limited = limited(Duration.ofHours(1));
    SearchServiceGrpc.SearchServiceImplBase searches =
        new SearchServiceGrpc.SearchServiceImplBase() {
          @Override
          public void search(SearchRequest request, StreamObserver<SearchResponse> responses) {
            responses.onError(limited);
            refused.complete(null);
          }
        };
    try (LocalServer server = new LocalServer(searches);
        Memsvc client = Memsvc.builder(server.address(), user).timeout(Duration.ofHours(2)).connect()) {
      CompletableFuture<MemsvcException> error =
          CompletableFuture.supplyAsync(() -> failure(() -> client.search("x")));
      refused.get();
      client.close();
      assertSaysThatTheClientIsClosed(error.get(30, TimeUnit.SECONDS));
    }
  }

  @Test
  void closingTheClientEndsAWatch() {
    try (Watch watch = memory.watch()) {
      memory.close();
      assertSaysThatTheClientIsClosed(failure(watch::hasNext));
      assertFalse(watch.hasNext());
    }
  }

  /** A server in this process. */
  private record LocalServer(Server server) implements AutoCloseable {
    LocalServer(BindableService service) throws IOException {
      this(Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(service).build().start());
    }

    String address() {
      return "127.0.0.1:" + server.getPort();
    }

    @Override
    public void close() {
      server.shutdownNow();
    }
  }

  /** A TCP proxy whose connections can be cut. */
  private static final class Proxy implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0);
    private final List<Socket> open = new CopyOnWriteArrayList<>();

    Proxy(String target) throws IOException {
      String[] parts = target.split(":");
      start(
          () -> {
            while (true) {
              Socket client = listener.accept();
              Socket server = new Socket(parts[0], Integer.parseInt(parts[1]));
              open.addAll(List.of(client, server));
              start(() -> copy(client, server));
              start(() -> copy(server, client));
            }
          });
    }

    String address() {
      return "127.0.0.1:" + listener.getLocalPort();
    }

    void cut() throws IOException {
      for (Socket socket : open) {
        socket.close();
      }
      open.clear();
    }

    @Override
    public void close() throws IOException {
      listener.close();
      cut();
    }

    private interface Work {
      void run() throws IOException;
    }

    private static void copy(Socket from, Socket to) throws IOException {
      try (InputStream input = from.getInputStream();
          OutputStream output = to.getOutputStream()) {
        input.transferTo(output);
      }
    }

    private static void start(Work work) {
      Thread thread =
          new Thread(
              () -> {
                try {
                  work.run();
                } catch (IOException end) {
                  // the connection was cut
                }
              });
      thread.setDaemon(true);
      thread.start();
    }
  }
}
