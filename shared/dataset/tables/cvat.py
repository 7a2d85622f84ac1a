"""CVAT's XML (for images 1.1): pictures, with what people said of each as a whole."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element


def is_cvat(root: Element) -> bool:
    return root.tag == "annotations" and root.find("image[@name]") is not None and root.find("meta") is not None


def tagged(root: Element) -> Iterator[dict[str, str]]:
    """A row for each picture: its name, its tags, and their attributes. Shapes are for mask rules."""
    for picture in root.iter("image"):
        row = {"name": picture.get("name", ""), "tag": "", "subset": picture.get("subset", "")}
        tags = picture.findall("tag")
        row["tag"] = "\n".join(dict.fromkeys(tag.get("label", "") for tag in tags))
        for tag in tags:
            for one in tag.iter("attribute"):
                row[one.get("name", "")] = (one.text or "").strip()
        yield row
