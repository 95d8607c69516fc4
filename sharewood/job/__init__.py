"""A job between hosts: configuration, secrets, a party's own files, the connection, the work."""
