"""BAM (Balanced self-Attention Matching, ECCV 2024) for OpenMMLab."""
