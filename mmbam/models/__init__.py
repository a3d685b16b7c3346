"""Backbone, projector, teacher, head and loss of BAM."""
