"""Tables that are not files here: databases and object stores, copied to a private folder while a command runs."""
