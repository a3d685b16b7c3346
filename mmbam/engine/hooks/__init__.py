"""Hooks, each optional."""
