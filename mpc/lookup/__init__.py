"""One-time truth tables: a masked value is opened, and a table is read at it on shares of the mask's one-hot vector."""
