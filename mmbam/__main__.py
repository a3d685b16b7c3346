"""``python -m mmbam`` is the command ``mmbam``."""

from mmbam.cli.main import main

main()
