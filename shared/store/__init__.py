"""Stored objects: content-addressed, verified on every read."""

from shared.store.client import BUCKETS, Store
from shared.store.folders import FileEntry, FolderManifest

__all__ = ["BUCKETS", "FileEntry", "FolderManifest", "Store"]
