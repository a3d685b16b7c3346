"""What several rooms need: errors, versions, process groups, model wrappers."""
