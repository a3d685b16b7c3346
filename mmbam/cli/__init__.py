"""The command ``mmbam``: one file per verb."""
