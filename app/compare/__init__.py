"""What the page Compare is made of: methods and their numbers, what may be compared, and the panels that show it."""
