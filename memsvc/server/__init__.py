"""gRPC server: servicers that decode requests, call the engine and build responses. The only package that knows gRPC."""
