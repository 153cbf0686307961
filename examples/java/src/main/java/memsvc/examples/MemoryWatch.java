package memsvc.examples;

import io.grpc.Context;
import io.grpc.Context.CancellableContext;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import io.memsvc.v1.MemoryChange;
import io.memsvc.v1.MemoryServiceGrpc.MemoryServiceBlockingStub;
import io.memsvc.v1.Scope;
import io.memsvc.v1.WatchMemoriesRequest;
import io.memsvc.v1.WatchMemoriesResponse;

/** Hears of every change of the memories that a scope sees, in the background, until it is closed. */
final class MemoryWatch implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private final CancellableContext context = Context.current().withCancellation();
  private final BlockingQueue<WatchMemoriesResponse> responses = new LinkedBlockingQueue<>();

  /**
   * Returns when the watch has begun: from then on no change is missed.
   *
   * @param cursor where an earlier watch was, to go on after it; empty to begin now
   */
  MemoryWatch(MemoryServiceBlockingStub memories, Scope scope, String cursor) throws Exception {
    WatchMemoriesRequest request = WatchMemoriesRequest.newBuilder().setScope(scope).setCursor(cursor).build();
    try {
      Iterator<WatchMemoriesResponse> stream =
          context.call(() -> Failure.patiently(PATIENCE, () -> begun(memories.watchMemories(request))));
      Thread reader = new Thread(() -> read(stream), "memory-watch");
      reader.setDaemon(true);
      reader.start();
    } catch (RuntimeException error) {
      close();
      throw error;
    }
  }

  /** Returns the next change with its cursor, or throws when it does not come in time. */
  WatchMemoriesResponse next(Duration patience) throws InterruptedException {
    long end = System.nanoTime() + patience.toNanos();
    while (true) {
      WatchMemoriesResponse response = responses.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
      if (response == null) {
        throw new IllegalStateException("The watch heard of nothing for %d seconds.".formatted(patience.toSeconds()));
      }
      if (response.hasChange()) { // else it is a heartbeat
        return response;
      }
    }
  }

  /** Says in a line what a change was. */
  static String line(MemoryChange change) {
    String action = change.getAction().name().substring("MEMORY_CHANGE_ACTION_".length());
    return "%s revision %d: %s".formatted(action, change.getRevision(), change.getMemory().getContent());
  }

  @Override
  public void close() {
    context.cancel(null);
  }

  /** Waits for the first response, a heartbeat. */
  private static Iterator<WatchMemoriesResponse> begun(Iterator<WatchMemoriesResponse> stream) {
    stream.next();
    return stream;
  }

  private void read(Iterator<WatchMemoriesResponse> stream) {
    try {
      stream.forEachRemaining(responses::add);
    } catch (StatusRuntimeException error) {
      if (!context.isCancelled()) {
        System.err.println("The watch broke off: " + Failure.of(error));
      }
    }
  }
}
