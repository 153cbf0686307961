"""gRPC server: servicers decode requests, call the engine and build responses. Nothing else knows gRPC."""
