"""The console: a web page of plain ES modules that calls the API of the service that serves it."""
