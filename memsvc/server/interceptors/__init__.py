"""Interceptors of every call: request id, access log, audit, errors, deadline, authentication, tracing."""
