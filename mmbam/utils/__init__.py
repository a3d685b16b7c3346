"""Helpers for several rooms: errors, tables, versions, process groups, wrappers."""
