"""S, A, B and the matching loss."""
