package io.memsvc;

import io.grpc.StatusRuntimeException;
import io.memsvc.v1.BuildContextRequest;
import io.memsvc.v1.BuildContextResponse;
import io.memsvc.v1.ContextItem;
import io.memsvc.v1.SearchServiceGrpc.SearchServiceBlockingStub;
import java.time.Duration;
import java.util.Iterator;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** The context of a query: a stream of events whose texts make up the context. Each iteration makes one call. */
public final class Context implements Iterable<BuildContextResponse> {
  private final SearchServiceBlockingStub searches;
  private final BuildContextRequest request;
  private final Connection connection;
  private final Duration timeout;

  Context(SearchServiceBlockingStub searches, BuildContextRequest request, Connection connection, Duration timeout) {
    this.searches = searches;
    this.request = request;
    this.connection = connection;
    this.timeout = timeout;
  }

  /**
   * Returns the whole context as one text, ready for a prompt: the texts of all events, as RenderContext joins them. The
   * first lines mark the rest as data, not instructions, and say what day it is.
   */
  public String text() {
    StringBuilder text = new StringBuilder();
    for (BuildContextResponse event : this) {
      text.append(event.getPlan().getText());
      for (ContextItem item : event.getItems().getItemsList()) {
        text.append(item.getText());
      }
      text.append(event.getSummary().getText());
    }
    return text.toString();
  }

  /** Yields the events: one plan, items and warnings, one summary. Until the first has come, the call is repeated. */
  @Override
  public Iterator<BuildContextResponse> iterator() {
    Iterator<BuildContextResponse> events =
        Attempts.run(
            connection,
            Optional.of(timeout),
            left -> {
              long nanos = left.orElseThrow().toNanos();
              Iterator<BuildContextResponse> stream =
                  searches.withDeadlineAfter(nanos, TimeUnit.NANOSECONDS).buildContext(request);
              if (!stream.hasNext()) { // waits for the first event
                throw Connection.UNEXPECTED_END.asRuntimeException();
              }
              return stream;
            });
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        try {
          return events.hasNext();
        } catch (StatusRuntimeException error) {
          throw connection.failure(error);
        }
      }

      @Override
      public BuildContextResponse next() {
        try {
          return events.next();
        } catch (StatusRuntimeException error) {
          throw connection.failure(error);
        }
      }
    };
  }
}
