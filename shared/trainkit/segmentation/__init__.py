"""What the templates of segmentations share: everything between a configuration and a package.

A template gives its settings, its dataset (which patches are drawn) and its model (network and loss) and calls
`run.main`. What a package needs stands in `shared.trainkit.exported.segmenter`, which training imports as well.
"""
