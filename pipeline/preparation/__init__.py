"""What the prepare stage is made of."""
