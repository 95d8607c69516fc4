"""Private set intersection: the rows that two parties have in common, also in shards."""
