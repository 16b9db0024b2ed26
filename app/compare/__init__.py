"""The parts of the Compare page: methods and their numbers, what may be compared, and the panels."""
