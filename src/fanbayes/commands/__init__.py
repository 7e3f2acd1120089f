"""The commands `fit`, `predict`, `evaluate`, `explain` and `show`: thin callers, one file each."""
