"""What every run has, whatever its pipeline: checked parameters."""
