"""The rows of a training in many processes, behind the interfaces of `tree.rows`."""
