"""What one party has in the clear: its table, bins of its columns, sketches over shards, digests."""
