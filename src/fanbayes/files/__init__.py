"""Files, as they are written."""
