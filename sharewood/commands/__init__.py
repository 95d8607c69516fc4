"""The commands, one file each: its options and its work."""
