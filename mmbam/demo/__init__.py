"""The made world, the demo and the chain of downstream tasks."""
