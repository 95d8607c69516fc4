"""What it takes to run a protocol between live processes."""
