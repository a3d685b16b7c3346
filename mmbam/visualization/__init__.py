"""Pictures of what a network learned and of how a run went."""
