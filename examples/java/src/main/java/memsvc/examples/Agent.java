package memsvc.examples;

import com.google.protobuf.Struct;
import com.google.protobuf.util.Values;
import io.grpc.Channel;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import io.memsvc.v1.BuildContextRequest;
import io.memsvc.v1.BuildContextResponse;
import io.memsvc.v1.ContextItem;
import io.memsvc.v1.ContextOptions;
import io.memsvc.v1.CreateMemoryRequest;
import io.memsvc.v1.CreateMemoryResponse;
import io.memsvc.v1.ErrorReason;
import io.memsvc.v1.Filter;
import io.memsvc.v1.FilterCondition;
import io.memsvc.v1.FilterExpression;
import io.memsvc.v1.FilterField;
import io.memsvc.v1.FilterOperator;
import io.memsvc.v1.Hit;
import io.memsvc.v1.Memory;
import io.memsvc.v1.MemoryKind;
import io.memsvc.v1.MemoryLayer;
import io.memsvc.v1.MemoryServiceGrpc;
import io.memsvc.v1.MemoryServiceGrpc.MemoryServiceBlockingStub;
import io.memsvc.v1.Scope;
import io.memsvc.v1.SearchMode;
import io.memsvc.v1.SearchRequest;
import io.memsvc.v1.SearchServiceGrpc;
import io.memsvc.v1.SearchServiceGrpc.SearchServiceBlockingStub;
import io.memsvc.v1.WatchMemoriesResponse;

/**
 * Plans a trip: remembers what it is told in two languages, recalls it, and watches what happens to its memories
 * meanwhile. It keeps them in a project of its own.
 */
final class Agent {
  private static final Duration CALL_TIMEOUT = Duration.ofSeconds(10);
  private static final int CONTEXT_TOKENS = 400;

  /** What it hears, in this order. The last one has the key of the first, so it changes that memory. */
  private static final List<Memory> TOLD =
      List.of(
          Memory.newBuilder()
              .setKey("hotel")
              .setContent("The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.")
              .addTags("hotel")
              .setImportance(4)
              .build(),
          Memory.newBuilder()
              .setContent("我对花生过敏，点菜前要先告诉餐厅。")
              .setLayer(MemoryLayer.MEMORY_LAYER_CORE)
              .addTags("food")
              .setImportance(5)
              .build(),
          Memory.newBuilder()
              .setContent("Ann wants a window seat on long flights.")
              .setKind(MemoryKind.MEMORY_KIND_PREFERENCE)
              .addTags("flight")
              .setImportance(4)
              .build(),
          Memory.newBuilder()
              .setContent("找一家可以听法多音乐的餐厅。")
              .setKind(MemoryKind.MEMORY_KIND_TASK)
              .addAllTags(List.of("food", "music"))
              .setImportance(4)
              .setMetadata(
                  Struct.newBuilder().putFields("party", Values.of(2)).putFields("booked", Values.of(false)))
              .build(),
          Memory.newBuilder()
              .setKey("hotel")
              .setContent("The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro.")
              .build());

  private final MemoryServiceBlockingStub memories;
  private final SearchServiceBlockingStub searches;
  private final Scope scope =
      Scope.newBuilder()
          .setUserId("ann")
          .setProjectId("trip-" + UUID.randomUUID())
          .setAgentId("planner-java")
          .build();

  Agent(Channel channel) {
    memories = MemoryServiceGrpc.newBlockingStub(channel);
    searches = SearchServiceGrpc.newBlockingStub(channel);
  }

  void run(String address) throws Exception {
    try (MemoryWatch watch = new MemoryWatch(memories, scope, "")) {
      System.out.printf(
          "Connected to %s: user %s, project %s%n", address, scope.getUserId(), scope.getProjectId());
      remember();
      sendWrongRequest();
      int found = recall();
      int shown = Failure.patiently(CALL_TIMEOUT, this::prepare);
      String cursor = report(watch);
      resume(cursor);
      System.out.printf(
          "Done: %d writes, %d hits, %d items of context, %d changes.%n", TOLD.size(), found, shown, TOLD.size());
    }
  }

  /** Writes what it is told. */
  private void remember() throws InterruptedException {
    for (Memory memory : TOLD) {
      CreateMemoryRequest request =
          CreateMemoryRequest.newBuilder()
              .setScope(scope)
              .setMemory(memory)
              .setRequestId(UUID.randomUUID().toString())
              .build();
      CreateMemoryResponse response = create(request);
      String outcome = response.getOutcome().name().substring("WRITE_OUTCOME_".length());
      System.out.printf("  %s %s%n", outcome, response.getMemory().getContent());
      if (memory == TOLD.get(0)) {
        repeat(request, response);
      }
    }
  }

  /** Sends a request once more, as if the reply had been lost. Its request_id makes it happen once. */
  private void repeat(CreateMemoryRequest request, CreateMemoryResponse first) throws InterruptedException {
    CreateMemoryResponse again = create(request);
    if (!again.getMemory().getId().equals(first.getMemory().getId()) || again.getOutcome() != first.getOutcome()) {
      throw new IllegalStateException("A repeated request was carried out twice.");
    }
    System.out.println("  Sent again with the same request_id: the same answer, stored once.");
  }

  /** Makes one call, with a deadline. When the service asks for a pause, it is made. */
  private CreateMemoryResponse create(CreateMemoryRequest request) throws InterruptedException {
    return Failure.patiently(CALL_TIMEOUT, () -> memories.withDeadlineAfter(CALL_TIMEOUT).createMemory(request));
  }

  /** Shows what a refusal looks like: every broken rule at once, each with its field. */
  private void sendWrongRequest() throws InterruptedException {
    Memory wrong = Memory.newBuilder().setImportance(9).addTags("").build();
    try {
      create(CreateMemoryRequest.newBuilder().setScope(scope).setMemory(wrong).build());
    } catch (StatusRuntimeException error) {
      Failure failure = Failure.of(error);
      if (!failure.reason().equals(ErrorReason.ERROR_REASON_INVALID_REQUEST.name())) {
        throw error;
      }
      System.out.println("A wrong request is refused: " + failure);
      return;
    }
    throw new IllegalStateException("A wrong request was not refused.");
  }

  /** Asks for what was remembered, in both languages, and returns how many memories were found. */
  private int recall() throws InterruptedException {
    int found = 0;
    for (String query : List.of("Where is our hotel?", "餐厅要注意什么？")) {
      System.out.printf("Found for \"%s\":%n", query);
      for (Hit hit : search(query)) {
        System.out.printf("  %.2f %s%n", hit.getScore(), hit.getMemory().getContent());
        found++;
      }
    }
    return found;
  }

  /** Finds by meaning and by words what matters and is no task. */
  private List<Hit> search(String query) throws InterruptedException {
    FilterCondition noTask =
        FilterCondition.newBuilder()
            .setField(FilterField.FILTER_FIELD_KIND)
            .setOperator(FilterOperator.FILTER_OPERATOR_NOT_EQUALS)
            .addValues(Values.of("TASK"))
            .build();
    SearchRequest request =
        SearchRequest.newBuilder()
            .setScope(scope)
            .setQuery(query)
            .setMode(SearchMode.SEARCH_MODE_HYBRID)
            .setFilter(
                Filter.newBuilder()
                    .addAllTagsAny(List.of("hotel", "food"))
                    .setMinImportance(4)
                    .setWhere(FilterExpression.newBuilder().setCondition(noTask)))
            .setLimit(3)
            .build();
    return Failure.patiently(CALL_TIMEOUT, () -> searches.withDeadlineAfter(CALL_TIMEOUT).search(request))
        .getHitsList();
  }

  /** Streams the context for the next answer, writes it as it comes, and returns how many items it has. */
  private int prepare() {
    BuildContextRequest request =
        BuildContextRequest.newBuilder()
            .setScope(scope)
            .setQuery("Book a table for dinner near the hotel.")
            .setOptions(ContextOptions.newBuilder().setTotalTokens(CONTEXT_TOKENS))
            .build();
    Iterator<BuildContextResponse> events = searches.withDeadlineAfter(CALL_TIMEOUT).buildContext(request);
    int items = 0;
    while (events.hasNext()) {
      BuildContextResponse event = events.next();
      show(event);
      items += event.getItems().getItemsCount();
    }
    return items;
  }

  /** Writes one event of a context. The texts of all events, one after another, are the prompt. */
  private static void show(BuildContextResponse event) {
    switch (event.getEventCase()) {
      case PLAN -> System.out.printf(
          "Context of at most %d tokens (%s):%n", event.getPlan().getTotalTokens(), event.getPlan().getTokenizer());
      case ITEMS -> event.getItems().getItemsList().forEach(Agent::show);
      case WARNING -> System.err.println("Warning: " + event.getWarning().getMessage());
      case SUMMARY -> System.out.printf("  %d tokens in all%n", event.getSummary().getTokenCount());
      default -> {} // a newer service may send what this program does not know
    }
  }

  private static void show(ContextItem item) {
    String section = item.getSection().name().substring("CONTEXT_SECTION_".length());
    System.out.printf("  %s, %d tokens:%n%s", section, item.getTokenCount(), item.getText());
  }

  /** Writes what the watch heard, and returns the cursor of the first change. */
  private static String report(MemoryWatch watch) throws InterruptedException {
    System.out.println("Meanwhile the watch saw:");
    String firstCursor = "";
    for (int seen = 0; seen < TOLD.size(); seen++) {
      WatchMemoriesResponse response = watch.next(CALL_TIMEOUT);
      firstCursor = firstCursor.isEmpty() ? response.getCursor() : firstCursor;
      System.out.println("  " + MemoryWatch.line(response.getChange()));
    }
    return firstCursor;
  }

  /** Goes on after a cursor, as after a broken connection, and writes the next change. */
  private void resume(String cursor) throws Exception {
    try (MemoryWatch watch = new MemoryWatch(memories, scope, cursor)) {
      String next = MemoryWatch.line(watch.next(CALL_TIMEOUT).getChange());
      System.out.println("Resumed after the first of them: " + next);
    }
  }
}
