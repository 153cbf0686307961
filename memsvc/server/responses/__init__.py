"""Responses built from domain values, one module for each service of the API."""
