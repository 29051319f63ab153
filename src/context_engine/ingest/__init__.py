"""What a document becomes, and what changes. Pure."""
