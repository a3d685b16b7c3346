"""Evaluators: functions on features first."""
