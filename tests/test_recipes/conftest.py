"""A folder as users have them: sub-folders, mixed sizes, gray, not all of it images."""

from pathlib import Path

import pytest

from tests.helpers.folders import write_photos


@pytest.fixture(scope='session')
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp('recipes') / 'photos')
