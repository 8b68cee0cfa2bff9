"""The inference server as a child of the serve stage: its command line, its output, its answers, its end."""
