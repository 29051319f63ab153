"""Latency of whole searches and of each leg, against plain SQL on one wide table."""
