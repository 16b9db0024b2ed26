"""The parts of the Live page: which runs it shows, their progress, and runs that need attention."""
