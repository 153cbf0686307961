package io.memsvc;

import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Function;

/** The attempts of one call. */
final class Attempts {
  private static final int MAX_ATTEMPTS = 5;
  private static final Duration FIRST_BACKOFF = Duration.ofMillis(50);
  private static final int BACKOFF_MULTIPLIER = 3;
  private static final Duration MAX_BACKOFF = Duration.ofSeconds(1);

  private final Connection connection;
  private final Optional<Long> end;
  private int count;
  private Duration backoff = FIRST_BACKOFF;

  private Attempts(Connection connection, Optional<Duration> timeout) {
    this.connection = connection;
    this.end = timeout.map(each -> System.nanoTime() + each.toNanos());
  }

  /**
   * Makes one call, again where it is safe.
   *
   * <p>Calls are repeated while the service is UNAVAILABLE, up to five times, and while it asks for a delay (RetryInfo)
   * that ends before the deadline. A call that arrives while the service stops is CANCELLED, as is one that the caller
   * cancels, which is not repeated; nor is one whose client is closed. Reads can be repeated; writes carry a request
   * id, so that they are applied once.
   *
   * @param timeout the time for all attempts together; empty: no limit
   * @param call gets the time that is left
   */
  static <T> T run(Connection connection, Optional<Duration> timeout, Function<Optional<Duration>, T> call) {
    Attempts attempts = new Attempts(connection, timeout);
    while (true) {
      connection.requireOpen();
      try {
        return call.apply(attempts.left());
      } catch (StatusRuntimeException error) {
        attempts.failed(connection.failure(error));
      }
    }
  }

  private Optional<Duration> left() {
    return end.map(each -> Duration.ofNanos(Math.max(1, each - System.nanoTime())));
  }

  /** Returns after the delay before another attempt, or throws the error if there is none. */
  private void failed(MemsvcException error) {
    count++;
    Duration asked = error.retryAfter().orElse(Duration.ZERO);
    Duration delay = asked.compareTo(backoff) > 0 ? asked : backoff;
    boolean isRepeatable =
        switch (error.code()) {
          case UNAVAILABLE -> count < MAX_ATTEMPTS;
          case CANCELLED -> count < MAX_ATTEMPTS && !isCancelled() && !connection.isClosed();
          case RESOURCE_EXHAUSTED, ABORTED -> error.retryAfter().isPresent();
          default -> false;
        };
    boolean isLate = left().filter(each -> each.compareTo(delay) < 0).isPresent();
    if (!isRepeatable || isLate) {
      throw error;
    }
    Duration next = backoff.multipliedBy(BACKOFF_MULTIPLIER);
    backoff = next.compareTo(MAX_BACKOFF) > 0 ? MAX_BACKOFF : next;
    connection.pause(delay);
  }

  /** Returns whether the caller cancelled: its thread is interrupted, or its gRPC context is cancelled. */
  private static boolean isCancelled() {
    return Thread.currentThread().isInterrupted() || io.grpc.Context.current().isCancelled();
  }
}
