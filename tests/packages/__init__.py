"""The client packages and the examples, each built and run as its README says."""
