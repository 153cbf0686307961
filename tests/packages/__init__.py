"""The examples, each built and run as its README says."""
