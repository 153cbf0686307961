package io.memsvc;

import java.nio.file.Path;
import java.util.Optional;

/**
 * Files of TLS, each PEM.
 *
 * @param ca the authority of the service's certificate; empty: those that Java trusts
 * @param certificate the certificate of the client for mTLS, with its key
 * @param key the key of the certificate
 */
public record Tls(Optional<Path> ca, Optional<Path> certificate, Optional<Path> key) {
  /** Trusts the authorities that Java trusts. */
  public static Tls ofSystem() {
    return new Tls(Optional.empty(), Optional.empty(), Optional.empty());
  }

  /** Trusts one authority. */
  public static Tls ofAuthority(Path ca) {
    return new Tls(Optional.of(ca), Optional.empty(), Optional.empty());
  }
}
