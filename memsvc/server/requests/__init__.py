"""Requests decoded and checked in one pass, one module for each service of the API."""
