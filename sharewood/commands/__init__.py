"""The commands: a file has the name of its command, whose help is the file's docstring, and its options and work."""
