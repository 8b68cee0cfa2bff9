"""What the vocab stage is made of."""
