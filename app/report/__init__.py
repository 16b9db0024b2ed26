"""A comparison as one HTML file that works offline."""
