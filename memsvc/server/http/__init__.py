"""The API over HTTP: Connect, gRPC-Web and plain JSON, beside gRPC and from the same handlers."""
