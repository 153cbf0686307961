package io.memsvc;

import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** The channel of a client to a service at an address. */
record Connection(ManagedChannel channel, String address) {
  /** The status of a stream that ends although it should go on. */
  static final Status UNEXPECTED_END = Status.UNAVAILABLE.withDescription("The service ended the stream.");

  boolean isClosed() {
    return channel.isShutdown();
  }

  /** Throws an exception with the code CANCELLED if the client is closed. */
  void requireOpen() {
    if (isClosed()) {
      throw closed(null);
    }
  }

  /** Decodes an error; one of a client that is closed has the code CANCELLED and says so. */
  MemsvcException failure(StatusRuntimeException error) {
    return isClosed() ? closed(error) : MemsvcException.of(error, address);
  }

  MemsvcException failure(Status status) {
    return failure(status.asRuntimeException());
  }

  private MemsvcException closed(Throwable cause) {
    Status status = Status.CANCELLED.withDescription("The client is closed.").withCause(cause);
    return MemsvcException.of(status.asRuntimeException(), address);
  }

  /** Waits, at most until the client is closed; an interrupt is an exception with the code CANCELLED. */
  void pause(Duration delay) {
    try {
      channel.awaitTermination(delay.toMillis() + 1, TimeUnit.MILLISECONDS);
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw failure(Status.CANCELLED.withDescription("The thread was interrupted.").withCause(interrupt));
    }
  }
}
