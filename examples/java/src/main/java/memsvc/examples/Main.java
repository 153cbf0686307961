package memsvc.examples;

import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Runs a small agent with a long-term memory against the service that the first argument or MEMSVC_ADDRESS names. */
public final class Main {
  private static final String DEFAULT_ADDRESS = "127.0.0.1:50051";

  /** Whose warnings, with their stack traces, say no more than the errors of the calls. Held here, so that it stays. */
  private static final Logger GRPC_LOGGER = Logger.getLogger("io.grpc");

  private Main() {}

  public static void main(String[] arguments) {
    System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(System.err, true, StandardCharsets.UTF_8));
    GRPC_LOGGER.setLevel(Level.SEVERE);
    Map<String, String> environment = System.getenv();
    String address =
        arguments.length > 0 ? arguments[0] : environment.getOrDefault("MEMSVC_ADDRESS", DEFAULT_ADDRESS);
    try {
      run(address, environment);
    } catch (StatusRuntimeException error) {
      fail(explain(Failure.of(error), address));
    } catch (IllegalArgumentException error) {
      fail("\"%s\" is no address: write HOST:PORT.".formatted(address));
    } catch (Exception error) {
      fail(error.getMessage());
    }
  }

  private static void run(String address, Map<String, String> environment) throws Exception {
    ManagedChannel channel =
        Channels.open(
            address, environment.getOrDefault("MEMSVC_API_KEY", ""), environment.getOrDefault("MEMSVC_TLS_CA", ""));
    try {
      new Agent(channel).run(address);
    } finally {
      channel.shutdownNow();
    }
  }

  /** Says in one sentence what went wrong and what to do about it. */
  private static String explain(Failure failure, String address) {
    return switch (failure.code()) {
      case UNAVAILABLE -> failure.reason().isEmpty()
          ? "No memory service answers at %s: start one with \"memsvc serve\", or give its address as the first argument or in MEMSVC_ADDRESS (and in MEMSVC_TLS_CA the file of its authority, if it speaks TLS)."
              .formatted(address)
          : failure.toString();
      case UNAUTHENTICATED -> "%s: give a key in MEMSVC_API_KEY (\"memsvc keys create\" makes one)."
          .formatted(failure.message());
      default -> failure.toString();
    };
  }

  private static void fail(String sentence) {
    System.err.println(sentence);
    System.exit(1);
  }
}
