"""What the commands in ``tools/`` share."""
