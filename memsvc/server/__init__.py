"""The wire: gRPC servicers that check, convert, call the engine and convert back. The only part that knows gRPC."""
