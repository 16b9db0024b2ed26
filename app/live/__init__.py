"""The parts of the Live page: which runs it shows, and what to do about those that went wrong."""
