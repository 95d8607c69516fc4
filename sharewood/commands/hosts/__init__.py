"""Between two hosts: each party runs the command at the same time, with its own configuration."""
