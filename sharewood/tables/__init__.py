"""Tables: schema files, reading and writing, shards, joining by ids."""
