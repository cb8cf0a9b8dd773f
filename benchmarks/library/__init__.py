"""What the benchmarks share: processes, clients, and figures."""
