"""Transforms from an image to its views."""
