"""HTML pages in one style, and that of a fitted model."""
