"""Measure a database that may be anyone's: reads only, and only what the measurement needs."""
