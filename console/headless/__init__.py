"""The commands without a screen: the same store and the same link, printed as lines or JSON."""
