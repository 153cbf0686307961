package memsvc.examples;

import io.memsvc.Memsvc;
import io.memsvc.MemsvcException;
import io.memsvc.Tls;
import io.memsvc.Watch;
import io.memsvc.v1.BuildContextResponse;
import io.memsvc.v1.CreateMemoryResponse;
import io.memsvc.v1.Filter;
import io.memsvc.v1.Memory;
import io.memsvc.v1.MemoryKind;
import io.memsvc.v1.MemoryLayer;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/** A small agent with a long-term memory: it plans a trip. */
public final class Agent {
  private static final Struct METADATA = Struct.newBuilder().putAllFields(Map.of(
      "party", Value.newBuilder().setNumberValue(2).build(), "booked", Value.newBuilder().setBoolValue(false).build())).build();
  /** What the agent hears. The last one has the key of the first, so it changes that memory. */
  private static final List<Memory.Builder> HEARD = List.of(
      Memory.newBuilder().setKey("hotel").setContent("The hotel in Lisbon is two minutes from the metro station Baixa-Chiado.").addTags("hotel"),
      Memory.newBuilder().setContent("我对花生过敏，点菜前要先告诉餐厅。").setLayer(MemoryLayer.MEMORY_LAYER_CORE).addTags("food"),
      Memory.newBuilder().setContent("Ann wants a window seat on long flights.").setKind(MemoryKind.MEMORY_KIND_PREFERENCE),
      Memory.newBuilder().setContent("找一家可以听法多音乐的餐厅。").setKind(MemoryKind.MEMORY_KIND_TASK).setMetadata(METADATA),
      Memory.newBuilder().setKey("hotel").setContent("The hotel in Lisbon moved us to its house in Alfama, five minutes from the metro."));

  public static void main(String[] arguments) {
    String address = arguments.length > 0 ? arguments[0] : System.getenv().getOrDefault("MEMSVC_ADDRESS", Memsvc.DEFAULT_ADDRESS);
    String project = "trip-" + UUID.randomUUID();
    Memsvc.Builder builder = Memsvc.builder(address, "ann").projectId(project).agentId("planner-java");
    Optional.ofNullable(System.getenv("MEMSVC_TLS_CA")).ifPresent(ca -> builder.tls(Tls.ofAuthority(Path.of(ca))));
    try (Memsvc memory = builder.connect()) {
      run(memory);
      System.out.println("Done: project " + project);
    } catch (MemsvcException | IllegalArgumentException error) {
      System.err.println(error);
      System.exit(1);
    }
  }

  private static void run(Memsvc memory) {
    Watch watch = memory.watch(); // from now on no change is missed
    for (Memory.Builder heard : HEARD) {
      CreateMemoryResponse stored = memory.create(heard.build(), request -> {});
      System.out.printf("  %s %s%n", stored.getOutcome(), stored.getMemory().getContent());
    }
    try {
      memory.create("", wrong -> wrong.setImportance(9));
    } catch (MemsvcException error) {
      System.out.printf("A wrong request is rejected: %s %s%n", error.code(), error.reason());
      error.violations().forEach(each -> System.out.printf("  %s: %s%n", each.field(), each.description()));
    }
    Filter filter = Filter.newBuilder().addTagsAny("hotel").addTagsAny("food").build();
    for (String query : List.of("Where is our hotel?", "餐厅要注意什么？")) {
      System.out.printf("Found for \"%s\":%n", query);
      memory.search(query, request -> request.setFilter(filter)).getHitsList()
          .forEach(hit -> System.out.printf("  %.2f %s%n", hit.getScore(), hit.getMemory().getContent()));
    }
    System.out.println("Context:");
    for (BuildContextResponse event : memory.context("Book a table for dinner near the hotel.")) {
      event.getItems().getItemsList().forEach(item -> System.out.printf("  %s: %s%n", item.getSection(), item.getText().strip()));
    }
    System.out.println("The watch saw:");
    List<Watch.Event> events = HEARD.stream().map(each -> watch.next()).toList();
    events.stream().map(Watch.Event::change).forEach(change ->
        System.out.printf("  %s %d %s%n", change.getAction(), change.getRevision(), change.getMemory().getContent()));
    Watch.Event resumed = memory.watch(request -> request.setCursor(events.get(0).cursor())).next();
    System.out.println("Resumed after the first of them: " + resumed.change().getMemory().getContent());
  }
}
