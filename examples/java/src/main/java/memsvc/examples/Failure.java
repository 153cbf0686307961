package memsvc.examples;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.Durations;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * What the service tells of a call that failed.
 *
 * @param code the gRPC status code
 * @param reason the name of a value of ErrorReason; empty when the service did not say, as when nobody answers
 * @param message what went wrong, in English
 * @param violations all rules that the request broke, each with its field
 * @param retryAfter how long to wait before another try, when the service said so
 */
record Failure(
    io.grpc.Status.Code code,
    String reason,
    String message,
    List<BadRequest.FieldViolation> violations,
    Optional<Duration> retryAfter) {

  /** Reads the details of an error. */
  static Failure of(StatusRuntimeException error) {
    String reason = "";
    List<BadRequest.FieldViolation> violations = List.of();
    Optional<Duration> retryAfter = Optional.empty();
    try {
      for (Any detail : details(error)) {
        if (detail.is(ErrorInfo.class)) {
          reason = detail.unpack(ErrorInfo.class).getReason();
        } else if (detail.is(BadRequest.class)) {
          violations = detail.unpack(BadRequest.class).getFieldViolationsList();
        } else if (detail.is(RetryInfo.class)) {
          retryAfter = Optional.of(Duration.ofNanos(Durations.toNanos(detail.unpack(RetryInfo.class).getRetryDelay())));
        }
      }
    } catch (InvalidProtocolBufferException unreadable) {
      error.addSuppressed(unreadable); // the code and the message hold all the same
    }
    String message = Optional.ofNullable(error.getStatus().getDescription()).orElse("");
    return new Failure(error.getStatus().getCode(), reason, message, violations, retryAfter);
  }

  /**
   * Makes a call again after the delay that the service asks for, as it does when a key's rate is used up, until the
   * patience is over.
   */
  static <T> T patiently(Duration patience, Supplier<T> call) throws InterruptedException {
    long end = System.nanoTime() + patience.toNanos();
    while (true) {
      try {
        return call.get();
      } catch (StatusRuntimeException error) {
        Duration wait = of(error).retryAfter().orElseThrow(() -> error);
        if (System.nanoTime() + wait.toNanos() > end) {
          throw error;
        }
        Thread.sleep(wait.toMillis() + 1);
      }
    }
  }

  private static List<Any> details(StatusRuntimeException error) {
    Status status = StatusProto.fromThrowable(error);
    return status == null ? List.of() : status.getDetailsList();
  }

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder("%s %s: %s".formatted(code, reason, message));
    violations.forEach(one -> text.append("%n  %s: %s".formatted(one.getField(), one.getDescription())));
    return text.toString();
  }
}
