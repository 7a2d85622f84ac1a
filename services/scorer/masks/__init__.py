"""Segmentations: organs, and lesions with what is known beside their masks."""
