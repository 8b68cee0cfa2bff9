"""The embedded rehearsal host: an SSH server of its own on the loopback address."""
