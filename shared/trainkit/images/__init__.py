"""What the templates of diagnosis and report generation share: everything between a configuration and a package.

A template gives its settings, its dataset, its model and a `Task` (task.py) and calls `run.main`. What a package needs
stands in `shared.trainkit.exported.imaging`, which training imports as well.
"""
