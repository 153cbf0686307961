"""The benchmark: real servers as subprocesses, measured over gRPC, beside their floor in the same run."""
