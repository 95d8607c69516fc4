"""What two parties tell each other before a step begins, and how they refuse to go on where it differs."""
