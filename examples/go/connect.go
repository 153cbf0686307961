package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// serviceConfig has gRPC try a call again when the service is away for a moment. That is safe for reads, and for writes
// because each carries a request_id.
const serviceConfig = `{
  "methodConfig": [{
    "name": [{}],
    "retryPolicy": {
      "maxAttempts": 5,
      "initialBackoff": "0.05s",
      "maxBackoff": "1s",
      "backoffMultiplier": 3,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
}`

// reconnecting has gRPC try to connect once a second; after a long outage it would do so only every two minutes. The
// pauses between the attempts of a call come to more, so that a call finds a service that is back.
var reconnecting = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 20 * time.Second,
}

// connect returns a connection to the service at address. It is made with the first call. With the file of an authority
// it speaks TLS; with a key every call brings it.
func connect(address, apiKey, authorityFile string) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if authorityFile != "" {
		var err error
		if transport, err = credentials.NewClientTLSFromFile(authorityFile, ""); err != nil {
			return nil, err
		}
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithConnectParams(reconnecting),
		grpc.WithNoProxy(),
	}
	if apiKey != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(apiKey)))
	}
	return grpc.NewClient(address, options...)
}

// bearer is an API key that every call brings.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (key bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(key)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. On loopback a key needs no TLS; anywhere else give
// MEMSVC_TLS_CA, too.
func (key bearer) RequireTransportSecurity() bool {
	return false
}
