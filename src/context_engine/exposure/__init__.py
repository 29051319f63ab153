"""Whether a vector search under permissions loses results: what to measure and how to judge it. Pure."""
