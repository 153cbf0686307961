package io.memsvc;

import com.google.protobuf.Duration;
import io.grpc.Context.CancellableContext;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.memsvc.v1.MemoryChange;
import io.memsvc.v1.MemoryServiceGrpc.MemoryServiceBlockingStub;
import io.memsvc.v1.WatchMemoriesRequest;
import io.memsvc.v1.WatchMemoriesResponse;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A watch that has begun: an iterator over committed changes, which waits for the next one. {@link #close} ends it, also
 * from another thread. It reconnects by itself, and fails if the service cannot be reached for a minute, or when the
 * client is closed.
 */
public final class Watch implements Iterator<Watch.Event>, AutoCloseable {
  private static final long HEARTBEAT_SECONDS = 15;
  private static final int SILENT_HEARTBEATS = 3;
  private static final java.time.Duration FIRST_PAUSE = java.time.Duration.ofMillis(100);
  private static final java.time.Duration LONGEST_PAUSE = java.time.Duration.ofSeconds(5);
  private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(60);
  private static final ScheduledThreadPoolExecutor TIMER = timer();

  private final MemoryServiceBlockingStub memories;
  private final WatchMemoriesRequest.Builder request;
  private final Connection connection;
  private final long silenceMillis;
  private final AtomicBoolean isClosed = new AtomicBoolean();
  private final AtomicBoolean isSilent = new AtomicBoolean();
  private volatile CancellableContext call;
  private Iterator<WatchMemoriesResponse> responses;
  private Optional<Event> next = Optional.empty();
  private long heardAt = System.nanoTime();
  private java.time.Duration pause = FIRST_PAUSE;

  /**
   * A committed change.
   *
   * @param change the change
   * @param cursor continues another watch after it
   */
  public record Event(MemoryChange change, String cursor) {}

  /** Returns after the first response, a heartbeat. */
  Watch(MemoryServiceBlockingStub memories, WatchMemoriesRequest.Builder request, Connection connection) {
    this.memories = memories;
    this.request = request;
    this.connection = connection;
    if (!request.hasHeartbeatInterval()) {
      request.setHeartbeatInterval(Duration.newBuilder().setSeconds(HEARTBEAT_SECONDS));
    }
    Duration heartbeat = request.getHeartbeatInterval();
    silenceMillis = SILENT_HEARTBEATS * (heartbeat.getSeconds() * 1_000 + heartbeat.getNanos() / 1_000_000);
    WatchMemoriesResponse first = Attempts.run(connection, Optional.empty(), left -> begin());
    keep(first);
  }

  /** Waits for the next change; returns false when the watch is closed. */
  @Override
  public boolean hasNext() {
    while (next.isEmpty() && !isClosed.get()) {
      try {
        if (responses == null) {
          keep(firstResponse());
        } else {
          heardAt = System.nanoTime(); // the time that the program takes for an event does not count
          keep(response());
        }
      } catch (StatusRuntimeException error) {
        recover(error);
      }
    }
    return next.isPresent();
  }

  /** Returns the next change. */
  @Override
  public Event next() {
    if (!hasNext()) {
      throw new NoSuchElementException("The watch is closed.");
    }
    Event event = next.orElseThrow();
    next = Optional.empty();
    return event;
  }

  @Override
  public void close() {
    isClosed.set(true);
    CancellableContext open = call;
    if (open != null) {
      open.cancel(null);
    }
  }

  /** Returns the first response; a call that ends because none comes is not repeated. */
  private WatchMemoriesResponse begin() {
    try {
      return firstResponse();
    } catch (StatusRuntimeException error) {
      if (isSilent.get()) {
        throw connection.failure(error);
      }
      throw error;
    }
  }

  private WatchMemoriesResponse firstResponse() {
    call = io.grpc.Context.ROOT.withCancellation();
    if (isClosed.get()) {
      call.cancel(null);
    }
    io.grpc.Context previous = call.attach();
    try {
      responses = memories.watchMemories(request.build());
    } finally {
      call.detach(previous);
    }
    return response();
  }

  /** Returns the next response; the end of the stream, and the silence of the service, are errors. */
  private WatchMemoriesResponse response() {
    isSilent.set(false);
    CancellableContext open = call;
    ScheduledFuture<?> silence =
        TIMER.schedule(
            () -> {
              isSilent.set(true);
              open.cancel(null);
            },
            silenceMillis,
            TimeUnit.MILLISECONDS);
    try {
      return responses.next();
    } catch (NoSuchElementException end) {
      throw Connection.UNEXPECTED_END.asRuntimeException();
    } catch (StatusRuntimeException error) {
      if (isSilent.get()) {
        String description = "Nothing came for %d ms.".formatted(silenceMillis);
        throw Status.UNAVAILABLE.withDescription(description).asRuntimeException();
      }
      throw error;
    } finally {
      silence.cancel(false);
    }
  }

  private void keep(WatchMemoriesResponse response) {
    request.setCursor(response.getCursor());
    heardAt = System.nanoTime();
    pause = FIRST_PAUSE;
    if (response.hasChange()) {
      next = Optional.of(new Event(response.getChange(), response.getCursor()));
    }
  }

  private void recover(StatusRuntimeException error) {
    if (isClosed.get()) {
      return;
    }
    MemsvcException decoded = connection.failure(error);
    boolean isLost =
        switch (decoded.code()) {
          case UNAVAILABLE -> true;
          case CANCELLED -> !Thread.currentThread().isInterrupted() && !connection.isClosed();
          case RESOURCE_EXHAUSTED -> decoded.retryAfter().isPresent();
          default -> false;
        };
    if (!isLost || System.nanoTime() - heardAt > PATIENCE_NANOS) {
      close();
      throw decoded;
    }
    call.cancel(null);
    responses = null;
    java.time.Duration asked = decoded.retryAfter().orElse(java.time.Duration.ZERO);
    connection.pause(asked.compareTo(pause) > 0 ? asked : pause);
    if (connection.isClosed()) {
      close();
      throw connection.failure(error);
    }
    java.time.Duration longer = pause.multipliedBy(2);
    pause = longer.compareTo(LONGEST_PAUSE) > 0 ? LONGEST_PAUSE : longer;
  }

  private static ScheduledThreadPoolExecutor timer() {
    ScheduledThreadPoolExecutor executor =
        new ScheduledThreadPoolExecutor(
            1,
            task -> {
              Thread thread = new Thread(task, "memsvc-watch-timer");
              thread.setDaemon(true);
              return thread;
            });
    executor.setRemoveOnCancelPolicy(true);
    return executor;
  }
}
