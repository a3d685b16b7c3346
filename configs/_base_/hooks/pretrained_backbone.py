"""Start from the backbone in the file that MMBAM_CHECKPOINT names."""

# Stops unless every weight of the backbone is in the file.
custom_hooks = [dict(type='mmbam.PretrainedBackboneHook')]
