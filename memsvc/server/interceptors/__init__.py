"""What happens around every call of our services, outermost first: request id, access log, errors, deadline."""
