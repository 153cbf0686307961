"""The rules of the API, checked by hand: all that is wrong with a request is told at once, by proto path.

Descriptions never quote what the client sent: they go into trailers, which are small.
"""
