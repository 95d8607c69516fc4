"""This machine: files that are complete, private and, with a key, encrypted; folders; processes; optional packages."""
