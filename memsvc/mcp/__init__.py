"""The bridge to MCP: what an MCP client over stdio asks is asked of a running memsvc, for one user and project.

It is a client program: it knows the Python client and the limits of the API, never the engine. The SDK is an extra
(`memsvc[mcp]`) and is imported by this package alone.
"""
