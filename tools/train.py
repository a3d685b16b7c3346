"""``mmbam train`` where OpenMMLab's users look for it."""

import sys

from mmbam.cli.main import main

if __name__ == '__main__':
    main(['train', *sys.argv[1:]])
