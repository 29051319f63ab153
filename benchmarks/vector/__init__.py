"""The vector leg under every visible share: recall, latency, size and growth."""
