"""What one does with a fitted model."""
