"""Looking into a running system."""
