package io.memsvc;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** A call failed. */
public final class MemsvcException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final String DOMAIN = "memsvc";
  private static final String REASON_PREFIX = "ERROR_REASON_";

  private final Status.Code code;
  private final String reason;
  private final transient List<Violation> violations;
  private final transient Map<String, String> metadata;
  private final transient Optional<Duration> retryAfter;

  /**
   * One rule that a request broke.
   *
   * @param field the path of the field
   * @param description the rule
   */
  public record Violation(String field, String description) {}

  MemsvcException(
      Status.Code code,
      String message,
      String reason,
      List<Violation> violations,
      Map<String, String> metadata,
      Optional<Duration> retryAfter,
      Throwable cause) {
    super(message, cause);
    this.code = code;
    this.reason = reason;
    this.violations = violations;
    this.metadata = metadata;
    this.retryAfter = retryAfter;
  }

  /** Decodes an error of a generated stub, such as those of {@link Memsvc#services}. */
  public static MemsvcException of(StatusRuntimeException error) {
    return of(error, "");
  }

  /** Decodes an error of gRPC. An address that is not empty is named if the service could not be reached. */
  static MemsvcException of(StatusRuntimeException error, String address) {
    String reason = "";
    boolean isExplained = false;
    List<Violation> violations = List.of();
    Map<String, String> metadata = Map.of();
    Optional<Duration> retryAfter = Optional.empty();
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    try {
      for (Any detail : status == null ? List.<Any>of() : status.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo info = detail.unpack(ErrorInfo.class);
          isExplained = true;
          if (info.getDomain().equals(DOMAIN)) {
            reason = info.getReason().replaceFirst("^" + REASON_PREFIX, "");
            metadata = info.getMetadataMap();
          }
        } else if (detail.is(BadRequest.class)) {
          violations =
              detail.unpack(BadRequest.class).getFieldViolationsList().stream()
                  .map(each -> new Violation(each.getField(), each.getDescription()))
                  .toList();
        } else if (detail.is(RetryInfo.class)) {
          com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
          retryAfter = Optional.of(Duration.ofSeconds(delay.getSeconds(), delay.getNanos()));
        }
      }
    } catch (InvalidProtocolBufferException unreadable) {
      error.addSuppressed(unreadable); // the code and the message hold all the same
    }
    Status.Code code = error.getStatus().getCode();
    String message = Optional.ofNullable(error.getStatus().getDescription()).orElse(code.name());
    if (code == Status.Code.UNAVAILABLE && !isExplained) {
      Throwable cause = error.getStatus().getCause();
      String detail = cause == null || cause.getMessage() == null ? message : cause.getMessage();
      String place = address.isEmpty() ? "" : " at " + address;
      message = "No service can be reached%s: %s".formatted(place, detail.lines().findFirst().orElse(message));
    }
    return new MemsvcException(code, message, reason, violations, metadata, retryAfter, error);
  }

  /** Returns the gRPC status code. */
  public Status.Code code() {
    return code;
  }

  /**
   * Returns the finer reason, a name of {@code ErrorReason} without its prefix, such as "MEMORY_NOT_FOUND"; empty if the
   * service sent none, as when it cannot be reached.
   */
  public String reason() {
    return reason;
  }

  /** Returns all rules that the request broke, if the code is INVALID_ARGUMENT. */
  public List<Violation> violations() {
    return violations;
  }

  /** Returns the values that {@code ErrorReason} documents for the reason, such as the present revision. */
  public Map<String, String> metadata() {
    return metadata;
  }

  /** Returns the delay before another attempt, if the service sent one. */
  public Optional<Duration> retryAfter() {
    return retryAfter;
  }

  /** Returns everything in one line. */
  @Override
  public String toString() {
    String broken =
        violations.stream()
            .map(each -> each.field() + ": " + each.description())
            .collect(Collectors.joining("; "));
    return "%s: %s"
        .formatted(reason.isEmpty() ? code.name() : reason, broken.isEmpty() ? getMessage() : broken);
  }
}
