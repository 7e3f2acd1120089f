"""What comes in: schemas, discretisation, encoded tables."""
