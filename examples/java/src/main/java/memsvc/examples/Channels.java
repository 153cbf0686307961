package memsvc.examples;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;

/** Makes the channel to a memory service. */
final class Channels {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  /**
   * Has gRPC try a call again when the service is away for a moment. That is safe for reads, and for writes because each
   * carries a request id. Numbers in a service config are doubles.
   */
  private static final Map<String, ?> SERVICE_CONFIG =
      Map.of(
          "methodConfig",
          List.of(
              Map.of(
                  "name", List.of(Map.of()),
                  "retryPolicy",
                      Map.of(
                          "maxAttempts", 5.0,
                          "initialBackoff", "0.05s",
                          "maxBackoff", "1s",
                          "backoffMultiplier", 3.0,
                          "retryableStatusCodes", List.of("UNAVAILABLE")))));

  private Channels() {}

  /**
   * Returns a channel to the service at an address; it connects with the first call. With the file of an authority it
   * speaks TLS; with a key every call brings it.
   *
   * @throws IOException the authority's file cannot be read
   */
  static ManagedChannel open(String address, String apiKey, String authorityFile) throws IOException {
    ChannelCredentials credentials =
        authorityFile.isEmpty()
            ? InsecureChannelCredentials.create()
            : TlsChannelCredentials.newBuilder().trustManager(new File(authorityFile)).build();
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(address, credentials)
            .defaultServiceConfig(SERVICE_CONFIG)
            .enableRetry()
            .proxyDetector(target -> null);
    if (!apiKey.isEmpty()) {
      Metadata headers = new Metadata();
      headers.put(AUTHORIZATION, "Bearer " + apiKey);
      builder.intercept(MetadataUtils.newAttachHeadersInterceptor(headers));
    }
    return builder.build();
  }
}
