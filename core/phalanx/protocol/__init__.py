"""What processes say to each other: reserved names, key names, messages."""
