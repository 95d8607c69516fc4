"""Products: of shares by Beaver triples, of shared bits, and of bits with fixed or public factors."""
