"""Files that two templates share are the same in both: each workspace has its own, and a fix reaches both."""

import pytest

from tests.templates.conftest import TEMPLATES


@pytest.mark.parametrize("name", ["augment.py", "images.py", "networks.py", "pretrained.py", "resnet.py"])
def test_a_file_of_two_templates_is_one(name):
    assert (TEMPLATES / "diagnosis" / name).read_text() == (TEMPLATES / "report_generation" / name).read_text()
