"""The offline phase: streams, plans, and a party's supply, whoever makes the material."""
